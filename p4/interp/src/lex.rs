// SPDX-License-Identifier: GPL-2.0

//! Text to tokens. Comments and line continuations go; each token knows its place and its logical line,
//! which is what the preprocessor's directives end at.

use crate::source::Pos;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    Name(String),
    /// A number: its value, and its width and signedness where it says so (`8w255`, `4s-1`).
    Number(u128, Option<(u32, bool)>),
    Text(String),
    Sym(&'static str),
    /// Anything else; an error once somebody looks at it.
    Bad(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    pub pos: Pos,
    /// Line counted without continuations.
    pub logical: u32,
    /// Directly behind the token before it: `>` `>` is a shift only then.
    pub glued: bool,
    /// Where it begins in the text.
    pub at: usize,
}

/// Longest first. `>>` is not here: it closes two type argument lists as well.
const SYMBOLS: [&str; 41] = [
    "&&&", "|+|", "|-|", "...", "##", "++", "&&", "||", "==", "!=", "<=", ">=", "<<", "..", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",",
    ";", ":", ".", "?", "@", "#", "_",
];

/// All tokens of `text`.
pub(crate) fn lex(text: &str, file: u32) -> Vec<Token> {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut line, mut col, mut logical) = (0usize, 1u32, 1u32, 1u32);
    let mut glued = false;
    // The next characters are ASCII wherever a byte is compared with one.
    while at < bytes.len() {
        let rest = &text[at..];
        let c = bytes[at];
        if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
            at += if bytes[at + 1] == b'\n' { 2 } else { 3 };
            line += 1;
            col = 1;
            glued = false;
            continue;
        }
        if c == b'\n' {
            at += 1;
            line += 1;
            logical = line;
            col = 1;
            glued = false;
            continue;
        }
        if c.is_ascii_whitespace() {
            at += 1;
            col += 1;
            glued = false;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if let Some(inside) = rest.strip_prefix("/*") {
            let len = inside.find("*/").map_or(rest.len(), |n| n + 4);
            let comment = &rest[..len];
            let lines = comment.matches('\n').count() as u32;
            line += lines;
            if lines > 0 {
                logical = line;
                col = (comment.len() - comment.rfind('\n').unwrap_or(0)) as u32;
            } else {
                col += comment.chars().count() as u32;
            }
            at += len;
            glued = false;
            continue;
        }
        let pos = Pos { file, line, col };
        let (tok, len) = one(rest);
        out.push(Token {
            tok,
            pos,
            logical,
            glued,
            at,
        });
        glued = true;
        col += rest[..len].chars().count() as u32;
        at += len;
    }
    out
}

fn one(rest: &str) -> (Tok, usize) {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_ascii_digit() {
        let len = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let text = &rest[..len];
        return match number(text) {
            Some((value, width)) => (Tok::Number(value, width), len),
            None => (Tok::Bad(text.to_owned()), len),
        };
    }
    if word(first) {
        let len = rest.find(|c| !word(c)).unwrap_or(rest.len());
        if len == 1 && first == '_' {
            return (Tok::Sym("_"), 1);
        }
        return (Tok::Name(rest[..len].to_owned()), len);
    }
    if first == '"' {
        let mut escaped = false;
        for (i, c) in rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                '"' if !escaped => return (Tok::Text(rest[1..i].to_owned()), i + 1),
                _ => escaped = c == '\\' && !escaped,
            }
        }
        return (Tok::Bad("\"".to_owned()), 1);
    }
    for symbol in SYMBOLS {
        if rest.starts_with(symbol) {
            return (Tok::Sym(symbol), symbol.len());
        }
    }
    (Tok::Bad(first.to_string()), first.len_utf8())
}

/// `10`, `0x1f`, `0b11`, `0o7`, with `_` anywhere, and `16w` or `16s` in front.
fn number(text: &str) -> Option<(u128, Option<(u32, bool)>)> {
    let split = text.find(['w', 's']);
    let (width, digits) = match split {
        Some(i) if text[..i].bytes().all(|b| b.is_ascii_digit()) => {
            let bits: u32 = text[..i].parse().ok()?;
            (Some((bits, text.as_bytes()[i] == b's')), &text[i + 1..])
        }
        _ => (None, text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0d" | "0D") => (10, &digits[2..]),
        _ => (10, digits),
    };
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    Some((u128::from_str_radix(&plain, radix).ok()?, width))
}

impl Tok {
    /// As it would stand in a message.
    pub fn show(&self) -> String {
        match self {
            Self::Name(s) => format!("`{s}`"),
            Self::Number(n, None) => format!("`{n}`"),
            Self::Number(n, Some((w, s))) => format!("`{w}{}{n}`", if *s { 's' } else { 'w' }),
            Self::Text(s) => format!("\"{s}\""),
            Self::Sym(s) => format!("`{s}`"),
            Self::Bad(s) => format!("`{s}`"),
        }
    }
}
