// SPDX-License-Identifier: GPL-2.0
//! The page in a headless browser: right size, no complaints, no overflow, every plot drawn, in light and
//! in dark. Skipped, visibly, where there is no browser.
//!
//! `FATHOM_SCREENSHOTS=DIR` keeps page and pictures, for people to look at.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A laptop.
const WIDTH: u32 = 1366;

/// The first browser that is there.
fn browser() -> Option<PathBuf> {
    let names = ["chromium-headless-shell", "chromium", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .find_map(|name| dirs.iter().map(|d| d.join(name)).find(|p| p.exists()))
}

struct Browser {
    program: PathBuf,
    /// Where it keeps its profile.
    profile: tempfile::TempDir,
}

impl Browser {
    /// Standard output and error of the browser on `page`.
    fn run(&self, page: &Path, dark: bool, height: u32, more: &[String]) -> (String, String) {
        let mut command = Command::new(&self.program);
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--no-first-run",
                "--disable-extensions",
                "--enable-logging=stderr",
                "--force-color-profile=srgb",
            ])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND")
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .arg(format!("--window-size={WIDTH},{height}"));
        if dark {
            command.arg("--blink-settings=preferredColorScheme=0");
        }
        let output = command
            .args(more)
            .arg(page)
            .output()
            .expect("the browser starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }
}

/// Added to the page for the measurement alone: writes where things are into the title.
const MEASURE: &str = "<script>
const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height].map(Math.round).join(',') };
const page = document.documentElement;
document.title = [page.scrollWidth, page.scrollHeight, [...document.querySelectorAll('figure > svg')].map(box).join(';')].join('|');
</script></body>";

/// Places of things on a page of `WIDTH`.
struct Layout {
    width: u32,
    height: u32,
    /// Left, top, width, height of each plot.
    plots: Vec<[u32; 4]>,
}

fn layout(browser: &Browser, page: &str, dir: &Path) -> Layout {
    let file = dir.join("measured.html");
    std::fs::write(&file, page.replace("</body>", MEASURE)).unwrap();
    let (dom, _) = browser.run(&file, false, 900, &["--dump-dom".into()]);
    let (_, title) = dom.split_once("<title>").expect("a title");
    let (title, _) = title.split_once("</title>").expect("a title");
    let parts: Vec<&str> = title.split('|').collect();
    let plots = parts[2].split(';').map(|plot| {
        let numbers: Vec<u32> = plot
            .split(',')
            .map(|n| n.parse().expect("a number"))
            .collect();
        numbers.try_into().expect("four numbers")
    });
    Layout {
        width: parts[0].parse().unwrap(),
        height: parts[1].parse().unwrap(),
        plots: plots.collect(),
    }
}

/// A picture, three bytes to a pixel.
struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    fn read(path: &Path) -> Self {
        let mut decoder = png::Decoder::new(std::io::BufReader::new(
            std::fs::File::open(path).expect("a screenshot"),
        ));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let per = info.color_type.samples();
        assert!(per >= 3, "a picture in colour");
        let rgb = bytes
            .chunks_exact(per)
            .flat_map(|p| [p[0], p[1], p[2]])
            .collect();
        Self {
            width: info.width,
            height: info.height,
            rgb,
        }
    }

    fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        let at = (y * self.width + x) as usize * 3;
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// Within a rectangle: pixels unlike its corner, and pixels with colour (not grey).
    fn ink(&self, [left, top, width, height]: [u32; 4]) -> (usize, usize) {
        let paper = self.pixel(left + 1, top + 1);
        let (mut ink, mut color) = (0, 0);
        for y in top..(top + height).min(self.height) {
            for x in left..(left + width).min(self.width) {
                let p = self.pixel(x, y);
                ink += usize::from(p.iter().zip(paper).any(|(a, b)| a.abs_diff(b) > 24));
                let (low, high) = (p.iter().min().unwrap(), p.iter().max().unwrap());
                color += usize::from(high - low > 60);
            }
        }
        (ink, color)
    }
}

#[test]
fn it_looks_right_in_a_browser() {
    let Some(program) = browser() else {
        println!("SKIP: no chromium-headless-shell, chromium or google-chrome in PATH");
        eprintln!("SKIP: no chromium-headless-shell, chromium or google-chrome in PATH");
        return;
    };
    let browser = Browser {
        program,
        profile: tempfile::tempdir().unwrap(),
    };
    let dir = tempfile::tempdir().unwrap();
    let keep = std::env::var_os("FATHOM_SCREENSHOTS").map(PathBuf::from);
    let runs = common::runs();
    let page = report::html(&runs, &common::verdicts(&runs));
    let place = keep.as_deref().unwrap_or(dir.path());
    let file = report::write(place, &runs, &common::verdicts(&runs)).unwrap();
    let layout = layout(&browser, &page, dir.path());
    assert_eq!(layout.width, WIDTH, "the page is wider than the window");
    let expected = page.matches("<figure>").count();
    assert_eq!(layout.plots.len(), expected);
    assert!(expected >= 15, "{expected} plots");
    // Two plots side by side at this width, none off the page.
    assert!(layout
        .plots
        .iter()
        .all(|p| p[2] > 500 && p[0] + p[2] <= WIDTH));

    let mut papers = Vec::new();
    for dark in [false, true] {
        let name = if dark { "dark.png" } else { "light.png" };
        let picture = place.join(name);
        let (_, said) = browser.run(
            &file,
            dark,
            layout.height,
            &[format!("--screenshot={}", picture.display())],
        );
        let complaints: Vec<&str> = said.lines().filter(|l| l.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
        let picture = Picture::read(&picture);
        assert_eq!((picture.width, picture.height), (WIDTH, layout.height));
        papers.push(picture.pixel(2, 2));
        for (i, plot) in layout.plots.iter().enumerate() {
            let (ink, color) = picture.ink(*plot);
            assert!(
                ink > 1500,
                "plot {i} is nearly blank in {name}: {ink} pixels"
            );
            assert!(
                color > 200,
                "plot {i} has no lines in {name}: {color} pixels"
            );
        }
        // The heading: black or white on the page. A browser without fonts would leave it empty.
        assert!(picture.ink([0, 0, 400, 60]).0 > 200, "no text in {name}");
    }
    assert!(
        papers[0].iter().all(|&c| c > 200) && papers[1].iter().all(|&c| c < 60),
        "{papers:?}"
    );
}
