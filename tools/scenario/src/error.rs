// SPDX-License-Identifier: GPL-2.0

//! Errors that show the place: file, line, the line itself, what is wrong and what is allowed.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// The text of a scenario, for errors to point into.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, as the user gave it.
    pub file: String,
    /// All of it.
    pub text: String,
}

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// One sentence.
    pub message: String,
    /// What to do, or what is allowed; may be empty.
    pub help: String,
    /// The file.
    pub file: String,
    /// Line, from 1; 0 = the whole file.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    rendered: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

impl std::error::Error for Error {}

impl Source {
    /// An error at `span`.
    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Box<Error> {
        let (message, help) = (message.into(), help.into());
        let span = self.visible(span);
        let (line, column) = self.place(span.start);
        let snippet = Snippet::source(&self.text)
            .path(&self.file)
            .annotation(AnnotationKind::Primary.span(span));
        let mut report =
            vec![Group::with_title(Level::ERROR.primary_title(&message)).element(snippet)];
        if !help.is_empty() {
            report.push(Group::with_title(Level::HELP.secondary_title(&help)));
        }
        let rendered = Renderer::plain().render(&report);
        Box::new(Error {
            rendered,
            message,
            help,
            file: self.file.clone(),
            line,
            column,
        })
    }

    /// Line and column of a place, both from 1.
    #[must_use]
    pub fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        (line, column)
    }

    /// The first line of `span`, within the text and on character boundaries: an error that spans a
    /// whole table would show all of it.
    fn visible(&self, span: Range<usize>) -> Range<usize> {
        let clamp = |at: usize| {
            let mut at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (clamp(span.start), clamp(span.end));
        let first = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |n| start + n);
        start..end.clamp(start, first.max(start))
    }
}

impl Error {
    /// An error about a whole file, such as one that cannot be read.
    #[must_use]
    pub fn file(file: &str, message: impl Into<String>) -> Box<Self> {
        let message = message.into();
        Box::new(Self {
            rendered: format!("error: {message}\n --> {file}"),
            message,
            help: String::new(),
            file: file.to_owned(),
            line: 0,
            column: 0,
        })
    }
}

/// The closest of `known` to `name`, if it is close enough to be a slip of the pen.
#[must_use]
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) = known
        .into_iter()
        .map(|k| (distance(name, k), k))
        .min_by_key(|(d, _)| *d)?;
    (distance <= (name.chars().count() + 1) / 3).then_some(best)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
