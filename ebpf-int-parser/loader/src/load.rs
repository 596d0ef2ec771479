// SPDX-License-Identifier: GPL-2.0
//! Loading and attaching.

use crate::settings::{Count, Fault, Settings};
use anyhow::{Context as _, Result};
use aya::{
    maps::{lpm_trie::Key, HashMap, LpmTrie, Map, MapData, PerCpuArray},
    programs::tc::TcAttachOptions,
    programs::{
        CgroupAttachMode, LinkOrder, SchedClassifier, SockOps, TcAttachType, TestRunOptions, Xdp,
    },
    Btf, Ebpf, EbpfLoader, TestRun as _,
};
use std::{
    fs::File,
    net::IpAddr,
    os::fd::{AsFd as _, AsRawFd as _},
    path::{Path, PathBuf},
    str::FromStr,
};

/// Destinations: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Bits.
    pub bits: u8,
}

impl Prefix {
    /// Every address.
    pub const ALL: Self = Self {
        address: IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        bits: 0,
    };

    fn key(self) -> Key<[u8; 16]> {
        let (bytes, bits) = match self.address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), u32::from(self.bits) + 96),
            IpAddr::V6(v6) => (v6.octets(), u32::from(self.bits)),
        };
        Key::new(bits, bytes)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| {
            format!("{text:?} is no prefix; expected one such as 10.0.0.0/8 or fd00::/16")
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(|| {
                    format!("{text:?}: {bits} is no prefix length; expected 0 to {most}")
                })?,
        };
        Ok(Self { address, bits })
    }
}

/// How XDP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before GRO: what keeps segments merging.
    Driver,
    /// In the stack, for drivers without; GRO has already seen the packet.
    Generic,
}

/// What is loaded and where it is attached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programs, as `make` built them.
    pub object: PathBuf,
    /// What they are told.
    pub settings: Settings,
    /// Whose sockets take part.
    pub cgroup: Option<PathBuf>,
    /// Devices whose incoming packets tc looks at.
    pub tc: Vec<String>,
    /// Devices whose incoming packets XDP looks at.
    pub xdp: Vec<(String, XdpMode)>,
    /// Destinations that take part; none = all.
    pub prefixes: Vec<Prefix>,
    /// Devices whose outgoing packets meet with a fault, for tests.
    pub faults: Vec<String>,
    /// Which.
    pub fault: Fault,
    /// Devices on which GRO's work is counted.
    pub gro: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            object: PathBuf::new(),
            settings: Settings::DEFAULT,
            cgroup: None,
            tc: vec![],
            xdp: vec![],
            prefixes: vec![],
            faults: vec![],
            fault: Fault::None,
            gro: vec![],
        }
    }
}

impl Settings {
    fn bytes(&self) -> [u8; 8] {
        [
            self.wants,
            self.takes,
            self.shift,
            self.extra_hops,
            self.per_window_shift,
            self.tc_feeds,
            self.xdp,
            0,
        ]
    }
}

/// The programs, attached. They go with this value unless they are pinned.
pub struct Loaded(
    pub(crate) Ebpf,
    pub(crate) Vec<(String, aya::programs::links::FdLink)>,
);

impl Loaded {
    /// Loads the programs and attaches them in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Says what was not found, or what the kernel refused.
    pub fn new(options: &Options) -> Result<Self> {
        let object = &options.object;
        let bytes = std::fs::read(object)
            .with_context(|| format!("the eBPF programs {} (try: make tools)", object.display()))?;
        let mut settings = options.settings;
        settings.tc_feeds |= u8::from(!options.tc.is_empty());
        settings.xdp |= u8::from(!options.xdp.is_empty());
        let settings = settings.bytes();
        let fault = options.fault as u32;
        let mut bpf = EbpfLoader::new()
            .btf(Btf::from_sys_fs().ok().as_ref())
            .override_global("SETTINGS", &settings[..], true)
            .override_global("FAULT", &fault, true)
            .load(&bytes)
            .with_context(|| format!("loading {}", object.display()))?;
        let mut links = vec![];

        let all = [Prefix::ALL];
        let prefixes = if options.prefixes.is_empty() {
            &all[..]
        } else {
            &options.prefixes
        };
        let mut scope: LpmTrie<_, [u8; 16], u32> = LpmTrie::try_from(
            bpf.map_mut("SCOPE")
                .context("the programs have no map SCOPE")?,
        )?;
        for prefix in prefixes {
            scope.insert(&prefix.key(), 1, 0)?;
        }

        if let Some(cgroup) = &options.cgroup {
            let dir = File::open(cgroup)
                .with_context(|| format!("cgroup {} (a cgroup v2 directory)", cgroup.display()))?;
            let program: &mut SockOps = program(&mut bpf, "int_sockops")?.try_into()?;
            program.load().context("the kernel refused int_sockops")?;
            let id = program
                .attach(dir, CgroupAttachMode::Single) // a link is one of many, whatever this says
                .with_context(|| format!("attaching to cgroup {}", cgroup.display()))?;
            links.push(("cgroup".into(), program.take_link(id)?.try_into()?));
        }
        for (name, devices, side) in [
            ("int_tc", &options.tc, TcAttachType::Ingress),
            ("int_fault", &options.faults, TcAttachType::Egress),
            ("int_gro", &options.gro, TcAttachType::Ingress),
        ] {
            for device in devices {
                attach_tc(&mut bpf, &mut links, name, device, side)?;
            }
        }
        if !options.xdp.is_empty() {
            let program: &mut Xdp = program(&mut bpf, "int_xdp")?.try_into()?;
            program.load().context("the kernel refused int_xdp")?;
            for (device, mode) in &options.xdp {
                let flags = match mode {
                    XdpMode::Driver => aya::programs::XdpMode::Driver,
                    XdpMode::Generic => aya::programs::XdpMode::Skb,
                };
                let id = program.attach(device, flags).with_context(|| {
                    format!("attaching XDP to {device} (a driver without XDP takes --xdp-generic)")
                })?;
                links.push((
                    format!("xdp-{}", plain(device)),
                    program.take_link(id)?.try_into()?,
                ));
            }
        }
        Ok(Self(bpf, links))
    }

    /// Attaches `int_tc` to one more device, in the network namespace of the calling thread. The settings
    /// must have said that tc feeds.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn attach_tc(&mut self, device: &str) -> Result<()> {
        attach_tc(
            &mut self.0,
            &mut self.1,
            "int_tc",
            device,
            TcAttachType::Ingress,
        )
    }

    /// The map that `tcp_int` wants.
    ///
    /// # Errors
    /// When the object is not ours.
    pub fn storage(&self) -> Result<&MapData> {
        match self.0.map("STORAGE") {
            Some(Map::SkStorage(data)) => Ok(data),
            _ => anyhow::bail!("the programs have no map STORAGE"),
        }
    }

    /// Runs `int_xdp` on a frame of the connection `flow`, for tests: the frame as it leaves, and what waits
    /// for the next segment to the peer (the bytes of a `wire::Echo`).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_xdp(&mut self, frame: &[u8], flow: &[u8; 36]) -> Result<(Vec<u8>, [u8; 36])> {
        let mut flows: HashMap<_, [u8; 36], [u8; 36]> =
            HashMap::try_from(self.0.map_mut("FLOWS").context("no map FLOWS")?)?;
        flows.insert(flow, [0; 36], 0)?;
        let xdp: &mut Xdp = program(&mut self.0, "int_xdp")?.try_into()?;
        if xdp.fd().is_err() {
            xdp.load().context("the kernel refused int_xdp")?;
        }
        let mut out = vec![0; frame.len()];
        let run = xdp.test_run(TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..TestRunOptions::default()
        })?;
        anyhow::ensure!(run.return_value == 2, "XDP answered {}", run.return_value);
        let flows: HashMap<_, [u8; 36], [u8; 36]> =
            HashMap::try_from(self.0.map("FLOWS").context("no map FLOWS")?)?;
        Ok((out, flows.get(flow, 0)?))
    }

    /// The descriptor of a map that `tcp_int` does not want, for tests.
    ///
    /// # Errors
    /// When the object is not ours.
    pub fn counts_fd(&self) -> Result<i32> {
        match self.0.map("COUNTS") {
            Some(Map::PerCpuArray(data)) => Ok(data.fd().as_fd().as_raw_fd()),
            _ => anyhow::bail!("the programs have no map COUNTS"),
        }
    }

    /// What happened so far, by [`Count`].
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self) -> Result<[u64; Count::COUNT]> {
        let map = self
            .0
            .map("COUNTS")
            .context("the programs have no map COUNTS")?;
        counts(&PerCpuArray::try_from(map)?)
    }
}

/// A link under the name that its pin has.
type Link = (String, aya::programs::links::FdLink);

fn attach_tc(
    bpf: &mut Ebpf,
    links: &mut Vec<Link>,
    name: &str,
    device: &str,
    side: TcAttachType,
) -> Result<()> {
    let program: &mut SchedClassifier = program(bpf, name)?.try_into()?;
    if program.fd().is_err() {
        program
            .load()
            .with_context(|| format!("the kernel refused {name}"))?;
    }
    let order = TcAttachOptions::TcxOrder(LinkOrder::default());
    let id = program
        .attach_with_options(device, side, order)
        .with_context(|| format!("attaching {name} to {device}"))?;
    let link = format!("{}-{}", name.trim_start_matches("int_"), plain(device));
    links.push((link, program.take_link(id)?.try_into()?));
    Ok(())
}

/// Device names may have dots in them, names of pins may not.
pub(crate) fn plain(device: &str) -> String {
    device.replace('.', "+")
}

pub(crate) fn counts<T: std::borrow::Borrow<MapData>>(
    map: &PerCpuArray<T, u64>,
) -> Result<[u64; Count::COUNT]> {
    let mut all = [0; Count::COUNT];
    for (i, sum) in all.iter_mut().enumerate() {
        *sum = map.get(&(i as u32), 0)?.iter().sum();
    }
    Ok(all)
}

fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut aya::programs::Program> {
    bpf.program_mut(name)
        .with_context(|| format!("the eBPF object has no program {name}"))
}

/// The file of the programs.
pub const OBJECT: &str = "fathom-int.bpf";

/// Where the programs are: beside the running command, or where they would be installed.
///
/// # Errors
/// When they are in neither place.
pub fn object() -> Result<PathBuf> {
    let exe = std::env::current_exe().context("where this command is")?;
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(OBJECT), dir.join("../lib/fathom").join(OBJECT)];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => anyhow::bail!(
            "no {OBJECT} beside {} (try: make tools, or --object FILE)",
            exe.display()
        ),
    }
}

/// Where the cgroup v2 tree is mounted.
///
/// # Errors
/// When it is not.
pub fn root_cgroup() -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").context("/proc/mounts")?;
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    match fields.find(|fields| fields.get(2) == Some(&"cgroup2")) {
        Some(fields) => Ok(fields[1].into()),
        None => anyhow::bail!(
            "no cgroup v2 tree is mounted (try: mount -t cgroup2 none /sys/fs/cgroup)"
        ),
    }
}
