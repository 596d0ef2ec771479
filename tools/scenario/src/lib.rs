// SPDX-License-Identifier: GPL-2.0

//! Scenario files: parsed, checked, and resolved into the network, flows and faults that engines run.
//!
//! ```text
//! FILE.toml --(--set)--> file::File --resolve(cc)--> Resolved ---> sim, lab, testbed
//! ```
//!
//! [`Scenario::load`] reads a file; [`Scenario::resolve`] makes a [`Resolved`] of it for one congestion
//! control under test. A [`Resolved`] is plain data: an engine parses nothing. What is wrong with a file
//! is one [`Error`] that shows file, line and key. `docs/scenarios.md` is the reference of the format.

pub mod cc;
mod error;
pub mod file;
pub mod metric;
mod network;
mod paths;
pub mod pattern;
mod resolve;
mod routes;
mod set;
pub mod sizes;
mod topology;
mod traffic;
pub mod units;

pub use cc::{BaseRtt, CcSpec, Config, IntFormat, Law};
pub use error::{closest, Error, Source};
pub use metric::{Engine, Expectation, Metric};
pub use network::*;
pub use paths::serialise_ns;
pub use traffic::MAX_FLOWS;

use std::path::{Path, PathBuf};

/// A scenario file, read but not yet resolved.
#[derive(Clone, Debug)]
pub struct Scenario {
    source: Source,
    file: file::File,
    name: String,
    dir: PathBuf,
}

impl Scenario {
    /// Reads `path`, with `settings` (`key=value`) in the place of what the file says.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML, or does not follow the schema.
    pub fn load(path: &Path, settings: &[String]) -> Result<Self, Box<Error>> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::file(&shown, format!("cannot read it: {e}")))?;
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        let stem = path
            .file_stem()
            .map_or_else(|| "scenario".into(), |s| s.to_string_lossy().into_owned());
        Self::parse(&shown, &text, settings, &dir, &stem)
    }

    /// The same from text. Files that it names are looked for in `dir`; `name` is for scenarios that do
    /// not say theirs.
    ///
    /// # Errors
    /// When it is not TOML, or does not follow the schema.
    pub fn parse(
        file: &str,
        text: &str,
        settings: &[String],
        dir: &Path,
        name: &str,
    ) -> Result<Self, Box<Error>> {
        let source = Source {
            file: file.to_owned(),
            text: set::apply(file, text, settings)?,
        };
        let file: file::File = toml::from_str(&source.text).map_err(|e| {
            let message = e.message().trim_end().to_owned();
            let (message, help) = match message.split_once(", expected") {
                Some((what, allowed)) => (what.to_owned(), format!("expected{allowed}")),
                None => (message, String::new()),
            };
            source.error(e.span().unwrap_or(0..0), message, help)
        })?;
        if file.compare.get_ref().is_empty() {
            return Err(source.error(
                file.compare.span(),
                "no congestion control to run",
                "at least one",
            ));
        }
        Ok(Self {
            name: file.name.clone().unwrap_or_else(|| name.to_owned()),
            source,
            file,
            dir: dir.to_owned(),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line: what it shows.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// The congestion controls to run when none is asked for.
    #[must_use]
    pub fn compare(&self) -> Vec<String> {
        self.file
            .compare
            .get_ref()
            .iter()
            .map(|c| c.get_ref().clone())
            .collect()
    }

    /// The engines that can run it.
    #[must_use]
    pub fn engines(&self) -> Vec<Engine> {
        let mut engines = match self.file.engines[..] {
            [] => vec![Engine::Sim, Engine::Lab],
            ref some => some.to_vec(),
        };
        if self.file.has_program() {
            // The lab's switches are the kernel's.
            engines.retain(|e| *e == Engine::Sim);
        }
        engines
    }

    /// The network, flows and faults with `cc` under test.
    ///
    /// # Errors
    /// The first thing in the file that cannot be.
    pub fn resolve(&self, cc: &str) -> Result<Resolved, Box<Error>> {
        resolve::Resolver::run(&self.source, &self.file, &self.dir, &self.name, cc)
    }
}
