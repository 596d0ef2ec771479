// SPDX-License-Identifier: GPL-2.0

//! Tables: where one is applied, what its keys, actions and entries are.

use super::*;

impl Lower {
    /// A place where `table` is applied.
    pub fn site(&mut self, table: &Rc<Table>, id: u32) -> Res<u32> {
        let mut keys = Vec::new();
        let mut key_types = Vec::new();
        let mut kinds = Vec::new();
        for key in &table.keys {
            let tv = self.expr(&key.expr)?;
            let Some(width) = self.types.width(&tv.ty) else {
                let shown = self.types.show(&tv.ty);
                return fault(key.expr.pos, format!("a key cannot have type {shown}"));
            };
            if !self.match_kinds.contains(&key.kind) {
                return fault(key.kind_pos, format!("unknown match kind `{}`", key.kind));
            }
            let kind = match key.kind.as_str() {
                "exact" => KeyKind::Exact,
                "ternary" | "optional" => KeyKind::Ternary,
                "lpm" => KeyKind::Lpm,
                "range" => KeyKind::Range,
                other => {
                    return fault(
                        key.kind_pos,
                        format!("match kind `{other}` is not supported"),
                    )
                }
            };
            if kind == KeyKind::Lpm && kinds.iter().any(|(k, _)| *k == KeyKind::Lpm) {
                return fault(key.kind_pos, "a table can have one lpm key");
            }
            kinds.push((kind, width));
            keys.push(self.scalar(&tv, key.expr.pos)?);
            key_types.push(tv.ty);
        }
        let mut infos: Vec<ActionInfo> = Vec::new();
        let mut actions = Vec::new();
        let mut decls: Vec<Rc<Action>> = Vec::new();
        for e in &table.actions {
            let Some(name) = action_name(e) else {
                return fault(e.pos, "expected an action");
            };
            let (action, depth) = match self.lookup(name) {
                Some(Sym::Action(a, depth)) if a.ret.is_none() => (a.clone(), *depth),
                Some(_) => return fault(e.pos, format!("`{name}` is not an action")),
                None => return fault(e.pos, format!("unknown action `{name}`")),
            };
            if infos.iter().any(|i| i.name == *name) {
                return fault(e.pos, format!("action `{name}` is listed twice"));
            }
            let (params, widths, body) = self.table_action(&action, depth)?;
            infos.push(ActionInfo {
                name: name.to_owned(),
                widths,
            });
            actions.push(ActionCode { params, body });
            decls.push(action);
        }
        let default = match &table.default {
            Some(e) => self.action_value(e, &infos, &decls)?,
            None => match infos.iter().position(|i| i.name == "NoAction") {
                Some(i) => (i as u32, Vec::new()),
                None => {
                    // P4 gives such a table NoAction.
                    infos.push(ActionInfo {
                        name: "NoAction".into(),
                        widths: Vec::new(),
                    });
                    actions.push(ActionCode {
                        params: Vec::new(),
                        body: Vec::new(),
                    });
                    (infos.len() as u32 - 1, Vec::new())
                }
            },
        };
        let mut entries = Vec::new();
        for entry in table.entries.iter().flatten() {
            let matches = self.key_set(&entry.keys, &key_types, entry.pos)?;
            for (m, (kind, _)) in matches.iter().zip(&kinds) {
                let ok = match (kind, m) {
                    (KeyKind::Exact, Match::Masked(_, m)) => *m != 0,
                    (KeyKind::Exact, _) => false,
                    (KeyKind::Range, _) => true,
                    (_, Match::Range(..)) => false,
                    _ => true,
                };
                if !ok {
                    return fault(entry.pos, "this entry does not fit the kind of its key");
                }
            }
            let (action, args) = self.action_value(&entry.action, &infos, &decls)?;
            entries.push((matches, action, args));
        }
        if let Some(size) = &table.size {
            self.const_int(size)?;
        }
        let info = &mut self.code.tables[id as usize];
        info.keys = kinds;
        info.actions = infos;
        info.default = default;
        info.entries = entries;
        self.code.sites.push(Site {
            table: id,
            keys,
            actions,
        });
        Ok(self.code.sites.len() as u32 - 1)
    }

    pub(super) fn table_action(
        &mut self,
        action: &Rc<Action>,
        depth: usize,
    ) -> Res<(Vec<Slot>, Vec<u32>, Vec<St>)> {
        let inner = self.scopes.split_off(depth.min(self.scopes.len()));
        let outer = std::mem::take(&mut self.cur);
        let mut scope = HashMap::new();
        let (mut slots, mut widths) = (Vec::new(), Vec::new());
        for param in &action.params {
            if param.dir != Dir::None {
                return fault(
                    param.pos,
                    format!(
                        "`{}`: an action that a table runs has parameters without direction",
                        param.name
                    ),
                );
            }
            let ty = self.ty(&param.ty, &Env::new())?;
            let Some(width) = self.types.width(&ty) else {
                let shown = self.types.show(&ty);
                return fault(param.pos, format!("action data cannot have type {shown}"));
            };
            let slot = self.alloc(&ty, param.pos)?;
            slots.push(slot);
            widths.push(width);
            let writable = false;
            scope.insert(param.name.clone(), Sym::Var { slot, ty, writable });
        }
        self.scopes.push(scope);
        self.action_body(action)?;
        self.scopes.pop();
        self.scopes.extend(inner);
        let body = std::mem::replace(&mut self.cur, outer);
        Ok((slots, widths, body))
    }

    /// `name` or `name(constants)`, of a table's actions.
    pub(super) fn action_value(
        &mut self,
        e: &Expr,
        infos: &[ActionInfo],
        decls: &[Rc<Action>],
    ) -> Res<(u32, Vec<u128>)> {
        let args: &[Expr] = match &e.kind {
            ExprKind::Call(_, _, args) => args,
            _ => &[],
        };
        let Some(name) = action_name(e) else {
            return fault(e.pos, "expected an action");
        };
        let Some(i) = infos.iter().position(|i| i.name == *name) else {
            return fault(e.pos, format!("`{name}` is not among the table's actions"));
        };
        let params = decls.get(i).map(|d| d.params.clone()).unwrap_or_default();
        if args.len() != params.len() {
            return fault(
                e.pos,
                format!("`{name}` takes {} values, not {}", params.len(), args.len()),
            );
        }
        let mut values = Vec::new();
        for (param, arg) in params.iter().zip(args) {
            let ty = self.ty(&param.ty, &Env::new())?;
            let tv = self.expr(arg)?;
            match self.coerce(tv, &ty, arg.pos)?.v {
                V::Const(c) => values.push(c),
                _ => return fault(arg.pos, "action data must be a constant here"),
            }
        }
        Ok((i as u32, values))
    }

    /// The matches of a select case or table entry.
    pub(super) fn key_set(&mut self, keys: &[Expr], types: &[Ty], pos: Pos) -> Res<Vec<Match>> {
        if keys.len() == 1 && matches!(keys[0].kind, ExprKind::Default) {
            return Ok(vec![Match::Any; types.len()]);
        }
        if keys.len() != types.len() {
            return fault(
                pos,
                format!("{} keys where {} are matched", keys.len(), types.len()),
            );
        }
        let mut out = Vec::new();
        for (key, ty) in keys.iter().zip(types) {
            let width = self.types.width(ty).unwrap_or(1);
            let mut value = |e: &Expr| -> Res<u128> {
                let tv = self.expr(e)?;
                match self.coerce(tv, ty, e.pos)?.v {
                    V::Const(c) => Ok(c),
                    _ => fault(e.pos, "a key must be a constant"),
                }
            };
            out.push(match &key.kind {
                ExprKind::Default => Match::Any,
                ExprKind::Mask(v, m) => {
                    let (v, m) = (value(v)?, value(m)?);
                    Match::Masked(v & m, m)
                }
                ExprKind::Range(low, high) => {
                    let (low, high) = (value(low)?, value(high)?);
                    if low > high {
                        return fault(key.pos, "this range is empty");
                    }
                    Match::Range(low, high)
                }
                _ => Match::Masked(value(key)?, mask(width)),
            });
        }
        Ok(out)
    }
}
