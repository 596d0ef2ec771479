// SPDX-License-Identifier: GPL-2.0

//! Golden files: what a run came to, to the last digit, kept in the tree.
//!
//! Canonical text has one number per line, keys in alphabetical order, floating-point numbers in the
//! shortest form that reads back as the same number. Time on the wall, the version of the tools and the
//! time series (large, and implied by the rest) are left out.

use crate::run::Results;
use serde_json::Value;
use std::path::Path;

/// What a comparison with a golden file came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Golden {
    /// The same to the last digit.
    Same,
    /// There was no file, or it was to be written anew; now there is.
    Written,
    /// Lines that differ: what the file has, what the run came to.
    Different(Vec<(String, String)>),
    /// There is no file, and none was to be written.
    Missing,
}

/// The canonical text of results.
#[must_use]
pub fn canonical(results: &Results) -> String {
    let mut results = results.clone();
    for run in &mut results.runs {
        run.wall = None;
        run.series.clear();
        run.meta.fathom.clear();
        run.facts.kernel.clear();
    }
    // serde_json's own maps are sorted, and its floats the shortest that read back the same.
    let value: Value = serde_json::to_value(&results).unwrap_or_default();
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

/// Compares `results` with the file at `path`; with `update`, writes it when it differs.
///
/// # Errors
/// When the file cannot be read or written.
pub fn golden(path: &Path, results: &Results, update: bool) -> std::io::Result<Golden> {
    let new = canonical(results);
    let old = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    match old {
        Some(old) if old == new => Ok(Golden::Same),
        _ if update => {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            std::fs::write(path, new)?;
            Ok(Golden::Written)
        }
        None => Ok(Golden::Missing),
        Some(old) => Ok(Golden::Different(differences(&old, &new))),
    }
}

/// The lines that differ, by what they are of: `runs/0/summary/all/jain: 0.99`.
fn differences(old: &str, new: &str) -> Vec<(String, String)> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut all = Vec::new();
    walk("", &parse(old), &parse(new), &mut all);
    if all.is_empty() {
        // The same numbers in another form: the file was edited by hand.
        all.push(("the file is not in canonical form".into(), String::new()));
    }
    all
}

fn walk(at: &str, old: &Value, new: &Value, all: &mut Vec<(String, String)>) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let side =
                    |m: &serde_json::Map<String, Value>| m.get(key).cloned().unwrap_or(Value::Null);
                walk(&format!("{at}/{key}"), &side(a), &side(b), all);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for i in 0..a.len().max(b.len()) {
                let side = |v: &[Value]| v.get(i).cloned().unwrap_or(Value::Null);
                walk(&format!("{at}/{i}"), &side(a), &side(b), all);
            }
        }
        (a, b) if a != b => all.push((format!("{at}: {a}"), b.to_string())),
        _ => {}
    }
}
