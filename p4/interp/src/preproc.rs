// SPDX-License-Identifier: GPL-2.0

//! The preprocessor: `#include`, `#define` with and without parameters, `#undef`, `#if`, `#ifdef`,
//! `#ifndef`, `#elif`, `#else`, `#endif`, `#error`, and `##`.
//!
//! `<core.p4>`, `<v1model.p4>`, `<tna.p4>` and `<t2na.p4>` are our own declarations (see `arch/`); other
//! names are looked for beside the file and in the include directories.

use crate::lex::{lex, Tok, Token};
use crate::source::{fault, Files, Pos, Res};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Included files within included files.
const MAX_DEPTH: usize = 32;
/// Macros within macros.
const MAX_NESTING: usize = 64;
/// Tokens of a whole program: macros that double each other must not eat the machine.
const MAX_TOKENS: usize = 1 << 20;

const ARCH: [(&str, &str); 5] = [
    ("core.p4", include_str!("../arch/core.p4")),
    ("v1model.p4", include_str!("../arch/v1model.p4")),
    ("tna.p4", include_str!("../arch/tna.p4")),
    ("t2na.p4", include_str!("../arch/t2na.p4")),
    ("tna_common.p4", include_str!("../arch/tna_common.p4")),
];

#[derive(Clone)]
struct Macro {
    params: Option<Vec<String>>,
    body: Vec<Token>,
}

pub(crate) struct Preprocessor<'a> {
    pub files: Files,
    includes: &'a [PathBuf],
    macros: HashMap<String, Macro>,
    out: Vec<Token>,
}

/// One `#if` that is open.
struct Branch {
    pos: Pos,
    /// Tokens count here.
    live: bool,
    /// Some branch of it already counted, or none may.
    done: bool,
    else_seen: bool,
}

impl<'a> Preprocessor<'a> {
    pub fn new(includes: &'a [PathBuf], defines: &[(String, String)]) -> Self {
        let mut files = Files::default();
        let file = files.add(Path::new("<command line>"));
        let macros = defines
            .iter()
            .map(|(name, value)| {
                let body = lex(value, file);
                (name.clone(), Macro { params: None, body })
            })
            .collect();
        Self {
            files,
            includes,
            macros,
            out: Vec::new(),
        }
    }

    /// All tokens of the program that begins with `text`, called `path`.
    pub fn run(&mut self, path: &Path, text: &str) -> Res<Vec<Token>> {
        let file = self.files.add(path);
        self.file(text, file, path.parent(), 0)?;
        Ok(std::mem::take(&mut self.out))
    }

    fn file(&mut self, text: &str, file: u32, dir: Option<&Path>, depth: usize) -> Res<()> {
        let tokens = lex(text, file);
        let mut branches: Vec<Branch> = Vec::new();
        let mut plain: Vec<Token> = Vec::new();
        let mut i = 0;
        while i < tokens.len() {
            let first = i == 0 || tokens[i - 1].logical != tokens[i].logical;
            if !(first && tokens[i].tok == Tok::Sym("#")) {
                if branches.iter().all(|b| b.live) {
                    plain.push(tokens[i].clone());
                }
                i += 1;
                continue;
            }
            self.flush(&mut plain)?;
            let start = i;
            let logical = tokens[i].logical;
            while i < tokens.len() && tokens[i].logical == logical {
                i += 1;
            }
            let line = &tokens[start + 1..i];
            self.directive(line, tokens[start].pos, text, dir, depth, &mut branches)?;
        }
        self.flush(&mut plain)?;
        match branches.last() {
            Some(b) => fault(b.pos, "this #if has no #endif"),
            None => Ok(()),
        }
    }

    fn flush(&mut self, plain: &mut Vec<Token>) -> Res<()> {
        let tokens = std::mem::take(plain);
        let mut out = std::mem::take(&mut self.out);
        let done = self.expand(&tokens, &mut Vec::new(), None, &mut out);
        self.out = out;
        done
    }

    fn directive(
        &mut self,
        line: &[Token],
        pos: Pos,
        text: &str,
        dir: Option<&Path>,
        depth: usize,
        branches: &mut Vec<Branch>,
    ) -> Res<()> {
        let Some(Token {
            tok: Tok::Name(name),
            ..
        }) = line.first()
        else {
            return if line.is_empty() {
                Ok(())
            } else {
                fault(pos, "a directive begins with a name, as in #include")
            };
        };
        let live = branches.iter().all(|b| b.live);
        let rest = &line[1..];
        let named = || match rest.first() {
            Some(Token {
                tok: Tok::Name(n), ..
            }) => Ok(n.clone()),
            _ => fault(pos, format!("#{name} needs a name")),
        };
        match name.as_str() {
            "if" | "ifdef" | "ifndef" => {
                let on = if !live {
                    false
                } else {
                    match name.as_str() {
                        "ifdef" => self.macros.contains_key(&named()?),
                        "ifndef" => !self.macros.contains_key(&named()?),
                        _ => self.condition(rest, pos)?,
                    }
                };
                branches.push(Branch {
                    pos,
                    live: on,
                    done: on || !live,
                    else_seen: false,
                });
            }
            "elif" | "else" => {
                let outer =
                    branches.len() < 2 || branches[..branches.len() - 1].iter().all(|b| b.live);
                let (else_seen, done) = match branches.last() {
                    Some(b) => (b.else_seen, b.done),
                    None => return fault(pos, format!("#{name} without #if")),
                };
                if else_seen {
                    return fault(pos, format!("#{name} after #else"));
                }
                let on = outer && !done && (name == "else" || self.condition(rest, pos)?);
                if let Some(b) = branches.last_mut() {
                    b.live = on;
                    b.done |= on;
                    b.else_seen = name == "else";
                }
            }
            "endif" => {
                if branches.pop().is_none() {
                    return fault(pos, "#endif without #if");
                }
            }
            _ if !live => {}
            "define" => self.define(rest, named()?)?,
            "undef" => {
                self.macros.remove(&named()?);
            }
            "error" => {
                let said = rest.first().map_or("", |t| {
                    let rest = &text[t.at..];
                    rest.lines().next().unwrap_or("")
                });
                return fault(pos, format!("#error {said}"));
            }
            "include" => return self.include(rest, pos, text, dir, depth),
            "pragma" | "line" => {}
            _ => return fault(pos, format!("#{name} is no directive")),
        }
        Ok(())
    }

    fn include(
        &mut self,
        rest: &[Token],
        pos: Pos,
        text: &str,
        dir: Option<&Path>,
        depth: usize,
    ) -> Res<()> {
        let bad = "#include needs \"FILE\" or <FILE>";
        let raw = match rest.first() {
            Some(t) => text[t.at..].lines().next().unwrap_or("").trim(),
            None => return fault(pos, bad),
        };
        let inner = |open: char, close: char| {
            let body = raw.strip_prefix(open)?;
            body.split_once(close).map(|(name, _)| name)
        };
        let (name, quoted) = match (inner('"', '"'), inner('<', '>')) {
            (Some(name), _) => (name, true),
            (_, Some(name)) => (name, false),
            _ => return fault(pos, bad),
        };
        if depth >= MAX_DEPTH {
            return fault(
                pos,
                format!("{name}: included too deeply; does it include itself?"),
            );
        }
        let mut tried: Vec<PathBuf> = Vec::new();
        if quoted {
            tried.extend(dir.map(|d| d.join(name)));
        }
        tried.extend(self.includes.iter().map(|d| d.join(name)));
        if let (false, Some((_, text))) = (quoted, ARCH.iter().find(|(n, _)| *n == name)) {
            let file = self.files.add(Path::new(&format!("<{name}>")));
            return self.file(text, file, None, depth + 1);
        }
        for path in &tried {
            if let Ok(text) = std::fs::read_to_string(path) {
                let file = self.files.add(path);
                return self.file(&text, file, path.parent(), depth + 1);
            }
        }
        fault(
            pos,
            format!("cannot read {name}: not beside this file, nor in an include directory"),
        )
    }

    fn define(&mut self, rest: &[Token], name: String) -> Res<()> {
        let mut body = &rest[1..];
        let mut params = None;
        if let Some(Token {
            tok: Tok::Sym("("),
            glued: true,
            pos,
            ..
        }) = body.first()
        {
            let mut names = Vec::new();
            let mut i = 1;
            loop {
                match body.get(i).map(|t| &t.tok) {
                    Some(Tok::Sym(")")) => break,
                    Some(Tok::Sym(",")) => {}
                    Some(Tok::Name(n)) => names.push(n.clone()),
                    _ => return fault(*pos, format!("the parameters of {name} are not closed")),
                }
                i += 1;
            }
            body = &body[i + 1..];
            params = Some(names);
        }
        let body = body.to_vec();
        self.macros.insert(name, Macro { params, body });
        Ok(())
    }

    /// Expands `tokens` into `out`. `active`: the macros whose bodies we are in. `at`: where the
    /// outermost one was used, which is where its tokens are said to be.
    fn expand(
        &self,
        tokens: &[Token],
        active: &mut Vec<String>,
        at: Option<Pos>,
        out: &mut Vec<Token>,
    ) -> Res<()> {
        let mut i = 0;
        while i < tokens.len() {
            let token = &tokens[i];
            i += 1;
            let pos = at.unwrap_or(token.pos);
            if out.len() > MAX_TOKENS {
                return fault(
                    pos,
                    "the program is too large: do its macros grow without end?",
                );
            }
            let found = match &token.tok {
                Tok::Name(n) if !active.contains(n) => self.macros.get(n).map(|m| (n, m)),
                _ => None,
            };
            let Some((name, mac)) = found else {
                out.push(Token {
                    pos,
                    ..token.clone()
                });
                continue;
            };
            let mut body = mac.body.clone();
            if let Some(params) = &mac.params {
                if tokens.get(i).map(|t| &t.tok) != Some(&Tok::Sym("(")) {
                    out.push(Token {
                        pos,
                        ..token.clone()
                    });
                    continue;
                }
                let (args, next) = arguments(tokens, i, pos, name)?;
                i = next;
                let none = params.is_empty() && args.len() == 1 && args[0].is_empty();
                if args.len() != params.len() && !none {
                    return fault(
                        pos,
                        format!(
                            "macro {name} takes {} arguments, not {}",
                            params.len(),
                            args.len()
                        ),
                    );
                }
                body = substitute(&body, params, &args);
            }
            let body = paste(body);
            if active.len() >= MAX_NESTING {
                return fault(pos, format!("macro {name} is nested too deeply"));
            }
            active.push(name.clone());
            self.expand(&body, active, Some(pos), out)?;
            active.pop();
        }
        Ok(())
    }

    fn condition(&self, line: &[Token], pos: Pos) -> Res<bool> {
        // `defined X` before macros, everything else after.
        let mut tokens = Vec::new();
        let mut i = 0;
        while i < line.len() {
            if line[i].tok == Tok::Name("defined".into()) {
                let open = line.get(i + 1).map(|t| &t.tok) == Some(&Tok::Sym("("));
                let at = i + 1 + usize::from(open);
                let Some(Token {
                    tok: Tok::Name(n), ..
                }) = line.get(at)
                else {
                    return fault(pos, "`defined` needs a name");
                };
                let is = u128::from(self.macros.contains_key(n));
                tokens.push(Token {
                    tok: Tok::Number(is, None),
                    ..line[i].clone()
                });
                i = at + 1 + usize::from(open);
            } else {
                tokens.push(line[i].clone());
                i += 1;
            }
        }
        let mut expanded = Vec::new();
        self.expand(&tokens, &mut Vec::new(), None, &mut expanded)?;
        let mut calc = Calc {
            tokens: &expanded,
            at: 0,
            pos,
            depth: 0,
        };
        let value = calc.level(0)?;
        if calc.at != expanded.len() {
            return fault(pos, "this condition does not end where it should");
        }
        Ok(value != 0)
    }
}

/// The arguments of a macro from the `(` at `i` on, and what follows them.
fn arguments(tokens: &[Token], i: usize, pos: Pos, name: &str) -> Res<(Vec<Vec<Token>>, usize)> {
    let mut args = vec![Vec::new()];
    let mut depth = 0usize;
    for (j, token) in tokens.iter().enumerate().skip(i) {
        match token.tok {
            Tok::Sym("(") => depth += 1,
            Tok::Sym(")") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok((args, j + 1));
        }
        if depth == 1 && token.tok == Tok::Sym(",") {
            args.push(Vec::new());
        } else if let (true, Some(last)) = (j > i, args.last_mut()) {
            last.push(token.clone());
        }
    }
    fault(pos, format!("the arguments of macro {name} are not closed"))
}

fn substitute(body: &[Token], params: &[String], args: &[Vec<Token>]) -> Vec<Token> {
    let mut out = Vec::new();
    for token in body {
        let which = match &token.tok {
            Tok::Name(n) => params.iter().position(|p| p == n),
            _ => None,
        };
        match which.and_then(|i| args.get(i)) {
            Some(arg) => out.extend(arg.iter().cloned()),
            None => out.push(token.clone()),
        }
    }
    out
}

/// `a ## b` becomes one name.
fn paste(body: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    let mut tokens = body.into_iter();
    while let Some(token) = tokens.next() {
        if token.tok != Tok::Sym("##") {
            out.push(token);
            continue;
        }
        let (Some(left), Some(right)) = (out.pop(), tokens.next()) else {
            continue;
        };
        let text = |t: &Tok| match t {
            Tok::Name(n) => n.clone(),
            Tok::Number(n, _) => n.to_string(),
            other => other.show(),
        };
        let joined = text(&left.tok) + &text(&right.tok);
        let mut both = lex(&joined, left.pos.file);
        for t in &mut both {
            t.pos = left.pos;
        }
        out.append(&mut both);
    }
    out
}

/// Integer arithmetic of a `#if`.
struct Calc<'a> {
    tokens: &'a [Token],
    at: usize,
    pos: Pos,
    depth: usize,
}

const LEVELS: [&[&str]; 6] = [
    &["||"],
    &["&&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Calc<'_> {
    fn level(&mut self, level: usize) -> Res<i128> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.level(level + 1)?;
        while let Some(Tok::Sym(op)) = self.tokens.get(self.at).map(|t| &t.tok) {
            if !operators.contains(op) {
                break;
            }
            self.at += 1;
            let right = self.level(level + 1)?;
            let truth = i128::from;
            left = match *op {
                "||" => truth(left != 0 || right != 0),
                "&&" => truth(left != 0 && right != 0),
                "==" => truth(left == right),
                "!=" => truth(left != right),
                "<" => truth(left < right),
                ">" => truth(left > right),
                "<=" => truth(left <= right),
                ">=" => truth(left >= right),
                "+" => left.wrapping_add(right),
                "-" => left.wrapping_sub(right),
                "*" => left.wrapping_mul(right),
                _ if right == 0 => return fault(self.pos, "division by zero"),
                "/" => left.wrapping_div(right),
                _ => left.wrapping_rem(right),
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Res<i128> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return fault(self.pos, "this condition is nested too deeply");
        }
        let token = self.tokens.get(self.at).map(|t| t.tok.clone());
        self.at += 1;
        let value = match token {
            Some(Tok::Number(n, _)) => n as i128,
            // A name that is no macro counts as zero, as in C.
            Some(Tok::Name(_)) => 0,
            Some(Tok::Sym("!")) => i128::from(self.unary()? == 0),
            Some(Tok::Sym("-")) => self.unary()?.wrapping_neg(),
            Some(Tok::Sym("(")) => {
                let value = self.level(0)?;
                if self.tokens.get(self.at).map(|t| &t.tok) != Some(&Tok::Sym(")")) {
                    return fault(self.pos, "this condition lacks a `)`");
                }
                self.at += 1;
                value
            }
            _ => return fault(self.pos, "this condition lacks a value"),
        };
        self.depth -= 1;
        Ok(value)
    }
}
