// SPDX-License-Identifier: GPL-2.0

//! Where text came from, and what is wrong with it.

use std::fmt;
use std::path::Path;

/// A place in the text: file (an index into [`Files`]), line and column, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pos {
    pub file: u32,
    pub line: u32,
    pub col: u32,
}

/// The names of the files that were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(pub Vec<String>);

impl Files {
    pub fn add(&mut self, path: &Path) -> u32 {
        self.0.push(path.display().to_string());
        (self.0.len() - 1) as u32
    }

    pub fn error(&self, e: Fault) -> Error {
        Error {
            file: self.0.get(e.pos.file as usize).cloned().unwrap_or_default(),
            line: e.pos.line,
            column: e.pos.col,
            message: e.message,
        }
    }
}

/// What is wrong, before the file has its name.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub pos: Pos,
    pub message: String,
}

/// A result of the front end.
pub(crate) type Res<T> = Result<T, Fault>;

/// A [`Fault`] as a result.
pub(crate) fn fault<T>(pos: Pos, message: impl Into<String>) -> Res<T> {
    Err(Fault {
        pos,
        message: message.into(),
    })
}

/// What is wrong with a program, and where. Shown as `FILE:LINE:COLUMN: error: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, as it was given or included.
    pub file: String,
    /// From 1; 0 when it is not about a line.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What, and what to do.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
        } = self;
        write!(f, "{file}:{line}:{column}: error: {message}")
    }
}

impl std::error::Error for Error {}
