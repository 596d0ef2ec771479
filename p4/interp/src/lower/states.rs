// SPDX-License-Identifier: GPL-2.0

//! Parsers: their states, and whether the ways between them are sound.

use super::*;

impl Lower {
    /// The code of a parser with its parameters bound.
    pub fn parser(&mut self, inst: &Rc<Inst>, binds: Vec<(String, Sym)>) -> Res<ParserCode> {
        let block = inst.block.clone();
        self.deeper(block.pos, &block.name)?;
        let Some(body) = &block.body else {
            return Ok(ParserCode::default());
        };
        let scopes = std::mem::take(&mut self.scopes);
        let outer = std::mem::take(&mut self.cur);
        let returns = std::mem::take(&mut self.returns);
        let in_parser = std::mem::replace(&mut self.in_parser, true);
        self.enter(inst, binds)?;
        let init = std::mem::take(&mut self.cur);
        let mut names: HashMap<&str, u32> = HashMap::new();
        for (i, state) in body.states.iter().enumerate() {
            if matches!(state.name.as_str(), "accept" | "reject") {
                return fault(
                    state.pos,
                    format!("`{}` is a state of every parser", state.name),
                );
            }
            if names.insert(&state.name, i as u32).is_some() {
                return fault(
                    state.pos,
                    format!("state `{}` is declared twice", state.name),
                );
            }
        }
        let Some(&start) = names.get("start") else {
            return fault(
                block.pos,
                format!("parser `{}` has no state `start`", block.name),
            );
        };
        names.insert("accept", ACCEPT);
        names.insert("reject", REJECT);
        let find = |name: &str, pos: Pos| match names.get(name) {
            Some(i) => Ok(*i),
            None => fault(pos, format!("unknown state `{name}`")),
        };
        let mut states = Vec::new();
        for state in &body.states {
            self.scopes.push(HashMap::new());
            for stmt in &state.body {
                self.stmt(stmt)?;
            }
            let mut code = StateCode::default();
            match &state.next {
                Transition::To(name, pos) => {
                    code.cases.push((Vec::new(), find(name, *pos)?));
                }
                Transition::Select(keys, cases) => {
                    let mut types = Vec::new();
                    for key in keys {
                        let tv = self.expr(key)?;
                        if self.types.width(&tv.ty).is_none() {
                            let shown = self.types.show(&tv.ty);
                            return fault(key.pos, format!("cannot select on {shown}"));
                        }
                        code.keys.push(self.scalar(&tv, key.pos)?);
                        types.push(tv.ty);
                    }
                    for case in cases {
                        let matches = self.key_set(&case.keys, &types, case.pos)?;
                        code.cases.push((matches, find(&case.next, case.next_pos)?));
                    }
                }
            }
            code.body = std::mem::take(&mut self.cur);
            self.scopes.pop();
            states.push(code);
        }
        self.graph(body, &states, start)?;
        // The interpreter begins with the first.
        if start != 0 {
            states.swap(0, start as usize);
            for state in &mut states {
                for (_, to) in &mut state.cases {
                    *to = match *to {
                        0 => start,
                        n if n == start => 0,
                        n => n,
                    };
                }
            }
        }
        self.cur = outer;
        self.scopes = scopes;
        self.returns = returns;
        self.in_parser = in_parser;
        self.depth -= 1;
        Ok(ParserCode { init, states })
    }

    /// Every state can be reached, and every way around a loop takes something from the packet.
    pub(super) fn graph(&self, body: &BlockBody, states: &[StateCode], start: u32) -> Res<()> {
        let mut seen = vec![false; states.len()];
        let mut todo = vec![start as usize];
        while let Some(i) = todo.pop() {
            if std::mem::replace(&mut seen[i], true) {
                continue;
            }
            let next = states[i].cases.iter().map(|(_, to)| *to as usize);
            todo.extend(next.filter(|to| *to < states.len()));
        }
        if let Some(i) = seen.iter().position(|s| !s) {
            let state = &body.states[i];
            return fault(state.pos, format!("state `{}` is unreachable", state.name));
        }
        // Take away states that consume; what is left must have no way around.
        let consumes: Vec<bool> = states.iter().map(|s| consumes(&s.body)).collect();
        let mut colour = vec![0u8; states.len()];
        for root in 0..states.len() {
            if consumes[root] || colour[root] != 0 {
                continue;
            }
            // Depth first, without recursion: a state and how many of its ways were taken.
            let mut path = vec![(root, 0usize)];
            colour[root] = 1;
            while let Some((i, n)) = path.last_mut() {
                let Some((_, to)) = states[*i].cases.get(*n) else {
                    colour[*i] = 2;
                    path.pop();
                    continue;
                };
                *n += 1;
                let to = *to as usize;
                if to >= states.len() || consumes[to] {
                    continue;
                }
                match colour[to] {
                    0 => {
                        colour[to] = 1;
                        path.push((to, 0));
                    }
                    1 => {
                        let state = &body.states[to];
                        return fault(
                            state.pos,
                            format!(
                                "unbounded loop: from state `{}` back to it nothing is extracted",
                                state.name
                            ),
                        );
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn consumes(body: &[St]) -> bool {
    body.iter().any(|st| match st {
        St::Extract(..) | St::ExtractNext(..) | St::SubParser(_) => true,
        St::Advance(E::C(n)) => *n > 0,
        St::Advance(_) => true,
        _ => false,
    })
}
