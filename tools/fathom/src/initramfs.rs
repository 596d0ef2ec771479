// SPDX-License-Identifier: GPL-2.0
//! An initramfs: a cpio archive ("newc"), uncompressed.

use anyhow::{Context as _, Result};
use std::{
    fs,
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive in the making.
pub struct Initramfs {
    out: BufWriter<fs::File>,
    inode: u32,
}

impl Initramfs {
    /// Starts one at `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let file = fs::File::create(path).with_context(|| path.display().to_string())?;
        let mut archive = Self {
            out: BufWriter::new(file),
            inode: 0,
        };
        for dir in ["dev", "proc", "sys", "tmp"] {
            archive.entry(dir, DIRECTORY | 0o755, &[])?;
        }
        Ok(archive)
    }

    /// Adds a directory.
    pub fn dir(&mut self, name: &str) -> Result<()> {
        self.entry(name, DIRECTORY | 0o755, &[])
    }

    /// Adds a file of the host.
    pub fn file(&mut self, name: &str, from: &Path) -> Result<()> {
        let data = fs::read(from).with_context(|| from.display().to_string())?;
        let mode = fs::metadata(from)?.permissions().mode() & 0o777;
        self.entry(name, FILE | mode, &data)
    }

    /// Adds a file with the given content.
    pub fn data(&mut self, name: &str, data: &[u8]) -> Result<()> {
        self.entry(name, FILE | 0o644, data)
    }

    /// Adds everything below a directory of the host, in the order of the names.
    pub fn tree(&mut self, prefix: &str, from: &Path) -> Result<()> {
        let mut entries: Vec<_> = fs::read_dir(from)
            .and_then(Iterator::collect)
            .with_context(|| from.display().to_string())?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                self.entry(&name, LINK | 0o777, target.to_string_lossy().as_bytes())?;
            } else if kind.is_dir() {
                self.dir(&name)?;
                self.tree(&format!("{name}/"), &entry.path())?;
            } else {
                self.file(&name, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Ends the archive.
    pub fn finish(mut self) -> Result<()> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush().context("write the initramfs")
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        let size =
            u32::try_from(data.len()).with_context(|| format!("{name} is larger than 4 GiB"))?;
        let links = if mode & DIRECTORY != 0 { 2 } else { 1 };
        let name_size = name.len() as u32 + 1;
        write!(self.out, "070701")?;
        // inode, mode, uid, gid, links, mtime, size, device (2), rdevice (2), name size, check.
        for field in [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0,
        ] {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(b"\0")?;
        pad(&mut self.out, 110 + name_size as usize)?;
        self.out.write_all(data)?;
        pad(&mut self.out, data.len())?;
        Ok(())
    }
}

/// Pads what was written to four bytes.
fn pad(out: &mut impl Write, written: usize) -> io::Result<()> {
    out.write_all(&[0; 3][..written.wrapping_neg() % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_padded_to_four_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("initramfs");
        let mut archive = Initramfs::create(&path).unwrap();
        archive.data("odd", b"12345").unwrap();
        archive.finish().unwrap();
        let bytes = fs::read(path).unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let at = bytes.windows(3).position(|w| w == b"odd").unwrap();
        // "odd" and its zero fill the header to 114, padded to 116; then the data.
        assert_eq!(&bytes[at - 110..at - 104], b"070701");
        assert_eq!(&bytes[at + 6..at + 11], b"12345");
        assert!(bytes.windows(10).any(|w| w == b"TRAILER!!!"));
    }
}
