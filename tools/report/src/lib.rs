// SPDX-License-Identifier: GPL-2.0

//! Results as one self-contained HTML page with plots: no script, nothing loaded from anywhere.
//!
//! ```text
//! Run, Run, ... --data--> points --plot, scale--> SVG --page--> index.html
//! ```
//!
//! Runs of one scenario are overlaid: a congestion control has one colour, an engine one kind of dashes.

mod data;
mod page;
mod plot;
mod scale;

pub use page::{html, FILE};

use results::{Run, Verdict};
use std::path::{Path, PathBuf};

/// Writes the report into `dir`, which is made when it is not there. Returns the file.
///
/// # Errors
/// When it cannot be written.
pub fn write(dir: &Path, runs: &[Run], verdicts: &[Verdict]) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let file = dir.join(FILE);
    std::fs::write(&file, html(runs, verdicts))?;
    Ok(file)
}
