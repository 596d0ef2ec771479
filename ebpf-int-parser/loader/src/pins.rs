// SPDX-License-Identifier: GPL-2.0
//! Programs that outlive the command: links and maps under `/sys/fs/bpf/fathom`.

use crate::{
    load::{counts, Loaded},
    settings::Count,
};
use anyhow::{bail, Context as _, Result};
use aya::maps::{Map, MapData, PerCpuArray, SkStorage};
use std::{fs, io::ErrorKind, path::Path};
use wire::storage::SIZE;

/// Where.
pub const PIN_DIR: &str = "/sys/fs/bpf/fathom";
const LINK: &str = "link-";

impl Loaded {
    /// Pins everything under [`PIN_DIR`]; what is there already is an error.
    ///
    /// # Errors
    /// Without a BPF file system, or when something is pinned there. Nothing stays pinned then.
    pub fn pin(self) -> Result<()> {
        let dir = Path::new(PIN_DIR);
        match fs::create_dir(dir) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                bail!("{PIN_DIR} is there already: something is attached (try: fathom status, fathom detach)")
            }
            Err(e) => {
                return Err(e).with_context(|| {
                    format!("{PIN_DIR} (no BPF file system? try: mount -t bpf bpf /sys/fs/bpf)")
                })
            }
        }
        let pinned = self.pin_in(dir);
        if pinned.is_err() {
            let _ = unpin(dir);
        }
        pinned
    }

    fn pin_in(mut self, dir: &Path) -> Result<()> {
        for name in ["STORAGE", "SCOPE", "FLOWS", "COUNTS"] {
            let map = self
                .0
                .map_mut(name)
                .with_context(|| format!("no map {name}"))?;
            map.pin(dir.join(name.to_lowercase()))
                .with_context(|| format!("pinning the map {name}"))?;
        }
        for (name, link) in std::mem::take(&mut self.1) {
            link.pin(dir.join(format!("{LINK}{name}")))
                .with_context(|| format!("pinning the link {name}"))?;
        }
        Ok(())
    }
}

fn unpin(dir: &Path) -> Result<Vec<String>> {
    let mut gone = vec![];
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        fs::remove_file(entry.path())
            .with_context(|| format!("removing {}", entry.path().display()))?;
        if let Some(link) = entry.file_name().to_string_lossy().strip_prefix(LINK) {
            gone.push(link.replace('+', "."));
        }
    }
    fs::remove_dir(dir)?;
    gone.sort();
    Ok(gone)
}

/// What is pinned.
pub struct Pinned;

impl Pinned {
    /// Where programs are attached: `cgroup`, `tc-DEVICE`, `xdp-DEVICE`; none when nothing is.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn links() -> Result<Option<Vec<String>>> {
        let entries = match fs::read_dir(PIN_DIR) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).context(PIN_DIR),
        };
        let mut links = vec![];
        for entry in entries {
            if let Some(link) = entry?.file_name().to_string_lossy().strip_prefix(LINK) {
                links.push(link.replace('+', "."));
            }
        }
        links.sort();
        Ok(Some(links))
    }

    /// Detaches all; what was attached, none when nothing was.
    ///
    /// # Errors
    /// When a pin cannot be removed.
    pub fn detach() -> Result<Option<Vec<String>>> {
        match unpin(Path::new(PIN_DIR)) {
            Ok(gone) => Ok(Some(gone)),
            Err(e) => match e.downcast_ref::<std::io::Error>() {
                Some(io) if io.kind() == ErrorKind::NotFound => Ok(None),
                _ => Err(e),
            },
        }
    }

    /// The records of sockets.
    ///
    /// # Errors
    /// When it is not pinned.
    pub fn storage() -> Result<SkStorage<MapData, [u8; SIZE]>> {
        let map = map("storage")?;
        Ok(SkStorage::try_from(Map::SkStorage(map))?)
    }

    /// What happened so far, by [`Count`].
    ///
    /// # Errors
    /// When it is not pinned.
    pub fn counts() -> Result<[u64; Count::COUNT]> {
        counts(&PerCpuArray::try_from(Map::PerCpuArray(map("counts")?))?)
    }

    /// The id of the pinned map of socket records.
    ///
    /// # Errors
    /// When it is not pinned.
    pub fn storage_id() -> Result<u32> {
        Ok(map("storage")?.info()?.id())
    }
}

fn map(name: &str) -> Result<MapData> {
    let path = Path::new(PIN_DIR).join(name);
    MapData::from_pin(&path).with_context(|| format!("the pinned map {}", path.display()))
}
