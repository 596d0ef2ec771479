// SPDX-License-Identifier: GPL-2.0

//! `--set key=value`: changes to a scenario's text before it is read, so that errors still show the
//! line.

use crate::error::Error;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// `text` with `settings` (`path.to.key=value`) applied. A list's element is named by its place, or by
/// its `group` or `name`.
pub(crate) fn apply(file: &str, text: &str, settings: &[String]) -> Result<String, Box<Error>> {
    if settings.is_empty() {
        return Ok(text.to_owned());
    }
    // What is not TOML is reported when it is read, with its line.
    let Ok(mut document) = text.parse::<DocumentMut>() else {
        return Ok(text.to_owned());
    };
    for setting in settings {
        let fail = |why: &str| Error::file(file, format!("--set {setting}: {why}"));
        let (path, value) = setting
            .split_once('=')
            .ok_or_else(|| fail("it is written key=value"))?;
        // What is no TOML value is text: --set duration=5ms needs no quotes.
        let value = value.trim();
        let value: Value = value.parse().unwrap_or_else(|_| Value::from(value));
        let keys: Vec<&str> = path.trim().split('.').collect();
        put(document.as_table_mut(), &keys, value).map_err(|why| fail(&why))?;
    }
    Ok(document.to_string())
}

/// Sets the value at the end of `keys`; tables that are missing on the way are made.
fn put(table: &mut dyn TableLike, keys: &[&str], value: Value) -> Result<(), String> {
    let (key, rest) = match keys {
        [] | ["", ..] => return Err("a key is missing".into()),
        [last] => return replace(table, last, value),
        [key, rest @ ..] => (*key, rest),
    };
    let item = table
        .entry(key)
        .or_insert_with(|| Item::Table(Table::new()));
    if let Item::ArrayOfTables(list) = item {
        let Some((which, rest)) = rest.split_first() else {
            return Err(format!(
                "{key:?} is a list: say which element by its place, group or name"
            ));
        };
        let named = |t: &Table| {
            ["group", "name"]
                .iter()
                .any(|k| t.get(k).and_then(Item::as_str) == Some(which))
        };
        let count = list.len();
        let at = which.parse().ok().or_else(|| list.iter().position(named));
        let element = at.and_then(|at: usize| list.get_mut(at));
        let element = element
            .ok_or_else(|| format!("there is no element {which:?} among the {count} of {key:?}"))?;
        return put(element, rest, value);
    }
    let inner = item
        .as_table_like_mut()
        .ok_or_else(|| format!("{key:?} is not a table"))?;
    put(inner, rest, value)
}

fn replace(table: &mut dyn TableLike, key: &str, value: Value) -> Result<(), String> {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            // What stands around the value, such as a comment, stays.
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None | Some(Item::None) => {
            table.insert(key, Item::Value(value));
        }
        Some(_) => return Err(format!("{key:?} is a table: say which of its keys")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "seed = 1 # why\n[topology.star]\nhosts = 3\n[[flows]]\ngroup = \"a\"\n[[flows]]\ngroup = \"b\"\n";

    fn set(setting: &str) -> Result<String, String> {
        apply("f", TEXT, &[setting.to_owned()]).map_err(|e| e.message)
    }

    #[test]
    fn values_change_in_their_place() {
        assert!(set("seed=7").unwrap().starts_with("seed = 7 # why\n"));
        assert!(set("topology.star.hosts=9").unwrap().contains("hosts = 9"));
        assert!(set("flows.b.count=5")
            .unwrap()
            .ends_with("group = \"b\"\ncount = 5\n"));
        assert!(set("flows.0.size=1MB")
            .unwrap()
            .contains("group = \"a\"\nsize = \"1MB\"\n"));
        assert!(set("cc.poseidon.m_thousandths=500")
            .unwrap()
            .contains("m_thousandths = 500"));
        assert!(set("x=[1, 2]").unwrap().contains("x = [1, 2]"));
    }

    #[test]
    fn what_cannot_be_set() {
        assert!(set("seed").unwrap_err().contains("key=value"));
        assert!(set("flows.c.count=1")
            .unwrap_err()
            .contains("no element \"c\""));
        assert!(set("flows=1").unwrap_err().contains("is a table"));
        assert!(set("seed.x=1").unwrap_err().contains("is not a table"));
        assert!(set("=1").unwrap_err().contains("missing"));
    }
}
