// SPDX-License-Identifier: GPL-2.0
//! `fathom run` and `fathom merge`: scenarios on an engine, in parallel, resumable, in shards.
//!
//! Everything that is asked for becomes a list of runs, one for each scenario, value swept, congestion control and
//! seed. A shard takes every n-th of them; a run whose result is kept already is skipped; workers take the
//! rest, one after the other. What comes out does not depend on how many workers there are.

use crate::{lab_engine, paths::Paths, Outcome};
use anyhow::{anyhow, bail, Context, Result};
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use results::{Measured, Results, Run, Verdict, Wall};
use scenario::{Engine, Resolved, Scenario};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The engines that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// Packet-level simulation.
    Sim,
    /// The real kernel in virtual time.
    Lab,
}

impl On {
    /// The same for results.
    pub fn engine(self) -> Engine {
        match self {
            Self::Sim => Engine::Sim,
            Self::Lab => Engine::Lab,
        }
    }
}

/// What to run.
#[derive(ClapArgs, Clone)]
pub struct What {
    /// In the place of what the file says: key=value, such as duration=5ms.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The congestion controls to run; default: those that the file compares.
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub cc: Vec<String>,
    /// In the place of the file's seed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Runs at once; default: one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub jobs: Option<u64>,
}

/// Arguments of `fathom run`.
#[derive(ClapArgs)]
pub struct Args {
    /// Scenario files, from anywhere.
    #[arg(required = true, value_name = "SCENARIO.toml")]
    scenarios: Vec<PathBuf>,
    /// What runs them.
    #[arg(long, value_enum, default_value = "sim")]
    on: On,
    #[command(flatten)]
    what: What,
    /// Run each with so many seeds: the file's or --seed, and the next ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// Run each with every one of these values: 'key=a;b;c'. May be repeated.
    #[arg(long, value_name = "KEY=A;B;C")]
    sweep: Vec<String>,
    /// Run every n-th only, counted from 0: i/n. The results are kept in --runs for `fathom merge`.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(u64, u64)>,
    /// Keep the result of each run in this directory.
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Do not repeat runs whose results are in --runs (default: fathom-runs).
    #[arg(long)]
    resume: bool,
    /// Write all results to this file; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Arguments of `fathom merge`.
#[derive(ClapArgs)]
pub struct MergeArgs {
    /// Results files, and directories of them as --runs makes.
    #[arg(required = true)]
    from: Vec<PathBuf>,
    /// Write all results to this file; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let parts = text
        .split_once('/')
        .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((i, n)) if i < n => Ok((i, n)),
        _ => Err(format!(
            "{text}: two numbers i/n with i below n, such as 0/4"
        )),
    }
}

/// One run to be done.
pub struct Job {
    /// Which scenario and values: runs with one number are checked and shown together.
    pub set: usize,
    /// What was set.
    pub settings: Vec<String>,
    /// The scenario.
    pub scenario: Scenario,
    /// The congestion control under test.
    pub cc: String,
    /// The engine.
    pub on: On,
    /// The name of its file.
    name: String,
}

/// Ctrl-C was pressed.
static STOP: AtomicBool = AtomicBool::new(false);

/// All jobs of some scenarios.
pub fn jobs(
    files: &[PathBuf],
    on: On,
    what: &What,
    seeds: u64,
    sweep: &[String],
) -> Result<Vec<Job>> {
    let mut all = Vec::new();
    let mut set = 0;
    for file in files {
        let text = std::fs::read(file).unwrap_or_default();
        for swept in combinations(sweep)? {
            for n in 0..seeds {
                let mut settings = what.set.clone();
                settings.extend(swept.iter().cloned());
                let mut scenario = Scenario::load(file, &settings).map_err(wrong)?;
                let own = || scenario.resolve(&scenario.compare()[0]).map(|r| r.seed);
                let seed = match what.seed {
                    None if n > 0 => Some(own().map_err(wrong)?),
                    seed => seed,
                };
                if let Some(seed) = seed {
                    settings.push(format!("seed={}", seed.wrapping_add(n)));
                    scenario = Scenario::load(file, &settings).map_err(wrong)?;
                }
                if !scenario.engines().contains(&on.engine()) {
                    bail!(
                        "{}: not for this engine; it runs on {}",
                        file.display(),
                        scenario
                            .engines()
                            .iter()
                            .map(ToString::to_string)
                            .collect::<Vec<_>>()
                            .join(", ")
                    );
                }
                let ccs = if what.cc.is_empty() {
                    scenario.compare()
                } else {
                    what.cc.clone()
                };
                for cc in ccs {
                    let key = format!("{settings:?} {}", env!("CARGO_PKG_VERSION"));
                    let name = format!(
                        "{}-{}-{}-{:016x}.json",
                        scenario.name(),
                        cc,
                        on.engine(),
                        hash(&[&text, key.as_bytes()])
                    );
                    all.push(Job {
                        set,
                        settings: settings.clone(),
                        scenario: scenario.clone(),
                        cc,
                        on,
                        name: name.replace('/', "_"),
                    });
                }
                set += 1;
            }
        }
    }
    Ok(all)
}

/// Every combination of the swept values, as settings.
fn combinations(sweep: &[String]) -> Result<Vec<Vec<String>>> {
    let mut all = vec![Vec::new()];
    for s in sweep {
        let Some((key, values)) = s.split_once('=') else {
            bail!("--sweep {s}: a key and its values are expected: key=a;b;c");
        };
        let values: Vec<&str> = values
            .split(';')
            .map(str::trim)
            .filter(|v| !v.is_empty())
            .collect();
        if values.is_empty() {
            bail!("--sweep {s}: there is no value");
        }
        all = all
            .iter()
            .flat_map(|before: &Vec<String>| {
                values.iter().map(move |v| {
                    let mut with = before.clone();
                    with.push(format!("{key}={v}"));
                    with
                })
            })
            .collect();
    }
    Ok(all)
}

/// What is wrong with a scenario, without the word that `main` puts in front.
fn wrong(e: Box<scenario::Error>) -> anyhow::Error {
    anyhow!("{}", e.to_string().trim_start_matches("error: "))
}

/// FNV-1a: the same on every machine.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|p| p.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Runs `fathom run`.
pub fn run(args: &Args) -> Result<Outcome> {
    let mut jobs = jobs(
        &args.scenarios,
        args.on,
        &args.what,
        args.seeds,
        &args.sweep,
    )?;
    let all = jobs.len();
    if let Some((i, n)) = args.shard {
        let mut at = 0;
        jobs.retain(|_| {
            at += 1;
            (at - 1) % n == i
        });
        eprintln!("fathom: shard {i} of {n}: {} of {all} runs", jobs.len());
    }
    let keeps = args.runs.is_some() || args.resume || args.shard.is_some();
    let dir = keeps.then(|| args.runs.clone().unwrap_or_else(|| "fathom-runs".into()));
    if let Some(dir) = &dir {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let done = execute(&jobs, args.what.jobs, dir.as_deref(), args.resume)?;
    let runs: Vec<Run> = done.iter().map(|(_, run)| run.clone()).collect();
    // Expectations may compare with runs of other shards.
    let verdicts = if args.shard.is_some() {
        Vec::new()
    } else {
        verdicts(&jobs, &done)?
    };
    show(
        &runs,
        &verdicts,
        args.json.as_deref(),
        args.report.as_deref(),
    )?;
    Ok(if verdicts.iter().all(|v| v.ok) {
        Outcome::Ok
    } else {
        Outcome::Failed
    })
}

/// Runs all `jobs`, those with results in `dir` left out when `resume`; results in the order of the jobs.
pub fn execute(
    jobs: &[Job],
    workers: Option<u64>,
    dir: Option<&Path>,
    resume: bool,
) -> Result<Vec<(usize, Run)>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = workers.map_or(cores, |n| n as usize).min(jobs.len()).max(1);
    let slots: Vec<Mutex<Option<Result<Run>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let parts: Vec<AtomicU64> = jobs.iter().map(|_| AtomicU64::new(0)).collect();
    // A second handler is refused when the lab has set its own, which ends us as well.
    let _ = ctrlc::set_handler(|| STOP.store(true, Relaxed));
    let bar = ProgressBar::new(jobs.len() as u64 * 1000);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {elapsed} gone, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_message(format!("0 of {} runs", jobs.len()));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let finished = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(job) = jobs.get(at) else { return };
                if STOP.load(Relaxed) {
                    return;
                }
                let mut tell = |part: f64| {
                    parts[at].store((part.clamp(0.0, 1.0) * 1000.0) as u64, Relaxed);
                    bar.set_position(parts.iter().map(|p| p.load(Relaxed)).sum());
                    !STOP.load(Relaxed)
                };
                let cpu = cpu_seconds();
                let result = one(job, dir, resume, &mut tell);
                let cpu = cpu_seconds() - cpu;
                tell(1.0);
                if let Ok((run, fresh)) = &result {
                    let cpu = fresh.then_some(cpu);
                    bar.suspend(|| eprintln!("{}", line(run, cpu)));
                }
                let result = result.map(|(run, _)| run);
                bar.set_message(format!(
                    "{} of {} runs",
                    finished.fetch_add(1, Relaxed) + 1,
                    jobs.len()
                ));
                *slots[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            });
        }
    });
    bar.finish_and_clear();
    let mut done = Vec::new();
    let mut failure = None;
    for (at, slot) in slots.into_iter().enumerate() {
        match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(run)) => done.push((at, run)),
            Some(Err(e)) if failure.is_none() => failure = Some(e),
            _ => {}
        }
    }
    if STOP.load(Relaxed) {
        let kept = if dir.is_some() {
            ", and kept: --resume goes on"
        } else {
            "; with --runs DIR they would be kept"
        };
        bail!(
            "interrupted: {} of {} runs are done{kept}",
            done.len(),
            jobs.len()
        );
    }
    match failure {
        Some(e) => Err(e),
        None => Ok(done),
    }
}

/// The kernel counts the time of a thread when it looks; below this that is not worth showing, s.
const LEAST_CPU: f64 = 0.02;

/// What a run has to say of itself. `cpu` is the time its thread was running: on a machine that does other
/// things too, that is what the run costs. None when the result was there already.
fn line(run: &Run, cpu: Option<f64>) -> String {
    let wall = run.wall.clone().unwrap_or_default();
    let what = format!(
        "{} {} seed {}: {} packet-hops, {:.3} ms of network time",
        run.meta.scenario,
        run.label(),
        run.meta.seed,
        run.facts.packet_hops,
        run.meta.duration_ns as f64 / 1e6,
    );
    let Some(cpu) = cpu else {
        return format!("{what}, kept");
    };
    if run.meta.engine == Engine::Lab {
        // Another process did it.
        return format!("{what}, {:.2} s", wall.seconds);
    }
    let spent = if cpu > LEAST_CPU { cpu } else { wall.seconds };
    let rate = run.facts.packet_hops as f64 / spent.max(1e-6) / 1e6;
    format!(
        "{what}, {:.2} s ({spent:.2} s of a core, {rate:.2} million a second), peak memory {} MiB",
        wall.seconds,
        wall.peak_bytes >> 20,
    )
}

/// How long this thread has been running on a core; 0 when that cannot be known.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    ns.unwrap_or(0) as f64 / 1e9
}

/// Does one job, or takes its result from `dir`; whether it was done.
fn one(
    job: &Job,
    dir: Option<&Path>,
    resume: bool,
    tell: &mut dyn FnMut(f64) -> bool,
) -> Result<(Run, bool)> {
    let kept = dir.map(|d| d.join(&job.name));
    if let (true, Some(file)) = (resume, &kept) {
        if let Ok(text) = std::fs::read_to_string(file) {
            // A file that is not whole is done again.
            if let Ok(mut results) = Results::parse(&text) {
                if let (Some(run), true) = (results.runs.pop(), results.runs.is_empty()) {
                    return Ok((run, false));
                }
            }
        }
    }
    let resolved = job.scenario.resolve(&job.cc).map_err(wrong)?;
    let begin = Instant::now();
    let measured = measure(job.on, &resolved, tell)
        .with_context(|| format!("{} with {}", resolved.name, job.cc))?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut run = Run::new(&resolved, job.on.engine(), &job.settings, measured);
    run.wall = Some(Wall {
        seconds,
        peak_bytes: peak_bytes(),
    });
    if let Some(file) = kept {
        write_whole(&file, &Results::new(vec![run.clone()]).to_json())?;
    }
    Ok((run, true))
}

/// What an engine makes of a scenario.
fn measure(on: On, resolved: &Resolved, tell: &mut dyn FnMut(f64) -> bool) -> Result<Measured> {
    match on {
        On::Sim => Ok(fathom_sim::engine::run(resolved, tell)?),
        On::Lab => lab_engine::measure(&Paths::find()?, resolved, tell),
    }
}

/// The largest memory of this process so far, bytes; 0 when that cannot be known.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Writes a file that is whole or not there.
fn write_whole(file: &Path, text: &str) -> Result<()> {
    let say = || format!("cannot write {}", file.display());
    let dir = file
        .parent()
        .filter(|d| !d.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(dir).with_context(say)?;
    temporary.write_all(text.as_bytes()).with_context(say)?;
    temporary.persist(file).with_context(say)?;
    Ok(())
}

/// Prints tables, and writes what is to be written.
fn show(
    runs: &[Run],
    verdicts: &[Verdict],
    json: Option<&Path>,
    report: Option<&Path>,
) -> Result<()> {
    if json.is_none_or(|file| file.as_os_str() != "-") {
        let scenarios: Vec<_> = runs
            .chunk_by(|a, b| a.meta.scenario == b.meta.scenario)
            .collect();
        for runs in &scenarios {
            if let ([first, ..], true) = (runs, scenarios.len() > 1) {
                println!("\n{}: {}", first.meta.scenario, first.meta.title);
            }
            println!("{}", results::table(runs));
        }
        if !verdicts.is_empty() {
            println!("{}", results::verdict_table(verdicts));
        }
    }
    keep(runs, verdicts, json, report)?;
    for v in verdicts.iter().filter(|v| !v.ok) {
        eprintln!("fathom: {}", complaint(v));
    }
    Ok(())
}

/// Writes results and the page to where they were asked for.
pub fn keep(
    runs: &[Run],
    verdicts: &[Verdict],
    json: Option<&Path>,
    report: Option<&Path>,
) -> Result<()> {
    let text = || Results::new(runs.to_vec()).to_json();
    match json {
        Some(file) if file.as_os_str() == "-" => print!("{}", text()),
        Some(file) => write_whole(file, &text())?,
        None => {}
    }
    if let Some(dir) = report {
        let page =
            ::report::write(dir, runs, verdicts).with_context(|| dir.display().to_string())?;
        eprintln!("fathom: {}", page.display());
    }
    Ok(())
}

/// Metric, value and bound of an expectation that failed.
fn complaint(v: &Verdict) -> String {
    let e = &v.expectation;
    let group = e
        .group
        .as_ref()
        .map_or(String::new(), |g| format!(" of {g}"));
    let bounds = [
        e.min.map(|m| format!("at least {m}")),
        e.max.map(|m| format!("at most {m}")),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    let than = e
        .relative_to
        .as_ref()
        .map_or(String::new(), |o| format!(" times {o}'s"));
    let value = v
        .value
        .map_or("not there".to_owned(), |v| format!("{v:.4}"));
    format!(
        "{} ({}): {}{group} is {value}, expected {}{than}",
        v.cc,
        v.engine,
        e.metric,
        bounds.join(" and ")
    )
}

/// What the scenarios expect against what came of it.
fn verdicts(jobs: &[Job], done: &[(usize, Run)]) -> Result<Vec<Verdict>> {
    let mut all = Vec::new();
    let sets: std::collections::BTreeSet<usize> = jobs.iter().map(|j| j.set).collect();
    for set in sets {
        let Some(job) = jobs.iter().find(|j| j.set == set) else {
            continue;
        };
        let resolved = job.scenario.resolve(&job.cc).map_err(wrong)?;
        let mine = done.iter().filter(|(at, _)| jobs[*at].set == set);
        let runs: Vec<Run> = mine.map(|(_, r)| r.clone()).collect();
        all.extend(results::check(&resolved.expect, &runs));
    }
    Ok(all)
}

/// Runs `fathom merge`.
pub fn merge(args: &MergeArgs) -> Result<Outcome> {
    let mut files = Vec::new();
    for from in &args.from {
        if from.is_dir() {
            let mut inside: Vec<PathBuf> = std::fs::read_dir(from)
                .with_context(|| from.display().to_string())?
                .filter_map(|e| e.ok().map(|e| e.path()))
                .filter(|p| p.extension().is_some_and(|e| e == "json"))
                .collect();
            inside.sort();
            files.extend(inside);
        } else {
            files.push(from.clone());
        }
    }
    if files.is_empty() {
        bail!("there are no results in {}", args.from[0].display());
    }
    let mut runs: Vec<Run> = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let results = Results::parse(&text).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        for run in results.runs {
            let same = |other: &Run| other.meta == run.meta;
            if !runs.iter().any(same) {
                runs.push(run);
            }
        }
    }
    runs.sort_by(|a, b| {
        let key = |r: &Run| {
            (
                r.meta.scenario.clone(),
                r.meta.set.clone(),
                r.meta.engine,
                r.meta.cc.clone(),
                r.meta.seed,
            )
        };
        key(a).cmp(&key(b))
    });
    eprintln!("fathom: {} runs from {} files", runs.len(), files.len());
    show(&runs, &[], args.json.as_deref(), args.report.as_deref())?;
    Ok(Outcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_all_combinations() {
        let all = combinations(&["a=1;2".into(), "b=[1,2];[3,4];[5,6]".into()]).expect("valid");
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], ["a=1", "b=[1,2]"]);
        assert_eq!(all[5], ["a=2", "b=[5,6]"]);
        assert!(combinations(&["a".into()]).is_err());
        assert!(combinations(&["a=;".into()]).is_err());
    }

    #[test]
    fn shards_cover_everything_once() {
        assert_eq!(shard("2/5"), Ok((2, 5)));
        for wrong in ["5/5", "1", "a/b", "-1/2", "1/0"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
