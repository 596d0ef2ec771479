// SPDX-License-Identifier: GPL-2.0
//! What the page holds, without a browser.

mod common;

#[test]
fn everything_is_there_and_nothing_is_loaded() {
    let runs = common::runs();
    let page = report::html(&runs, &common::verdicts(&runs));
    for title in [
        "Throughput of the line",
        "Queue",
        "Round-trip time",
        "Congestion window",
        "Fairness",
        "Who gets what: poseidon (sim)",
        "Slowdown by flow size, median",
        "Slowdown by flow size, 99th percentile",
        "Slowdown by flow size, 99.9th percentile",
        "Slowdown, distribution",
        "Flow completion time, distribution",
        "Queue, distribution",
        "Start and finish",
        "Jain&#39;s index of throughputs",
        "Convergence",
    ] {
        assert!(
            page.contains(&format!("<h3>{title}</h3>")),
            "{title} is missing"
        );
    }
    for name in [
        "poseidon (sim)",
        "poseidon (lab)",
        "swift (sim)",
        "cubic (sim)",
    ] {
        assert!(page.contains(name), "{name} is missing");
    }
    for outside in ["http:", "https:", "<script", "@import", "url(", "src="] {
        assert!(
            !page.contains(outside),
            "{outside} in a page that loads nothing"
        );
    }
    assert!(
        page.contains("shares &lt;must&gt; be fair &amp; equal"),
        "text is not escaped"
    );
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(
        !page.contains("NaN") && !page.contains("inf"),
        "a number that is none"
    );
}

#[test]
fn a_run_without_series_is_a_table() {
    let mut run = common::run("swift", scenario::Engine::Sim);
    run.series.clear();
    run.flows.clear();
    run.summary.bins.clear();
    let page = report::html(&[run], &[]);
    assert!(page.contains("<table>") && !page.contains("Throughput of the line"));
    assert!(report::html(&[], &[]).contains("<body>"));
}

#[test]
fn it_is_written_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let file = report::write(&dir.path().join("a/b"), &common::runs(), &[]).unwrap();
    assert!(file.ends_with("a/b/index.html") && file.exists());
}

#[test]
fn a_spike_does_not_stretch_the_axis() {
    let note = "are drawn at the edge";
    let mut runs = vec![common::run("swift", scenario::Engine::Sim)];
    assert!(!report::html(&runs, &[]).contains(note));
    let mut spikes = 0;
    for series in &mut runs[0].series {
        if series.quantity == results::Quantity::Throughput {
            if let results::Subject::Flow(_) = series.of {
                series.values.0[700] = 1e12;
                spikes += 1;
            }
        }
    }
    assert!(spikes > 0, "a flow has a series");
    let page = report::html(&runs, &[]);
    assert!(
        page.contains(&format!("{spikes} points above")) && page.contains(note),
        "a note of the spikes alone"
    );
    let plot = page.split("<h3>Who gets what").nth(1).expect("the plot");
    let plot = plot.split("</figure>").next().unwrap_or_default();
    // The highest is drawn as 250 Gbit/s of 10.
    for tick in [">50</text>", ">100</text>", ">200</text>"] {
        assert!(!plot.contains(&format!("end{tick}")), "{tick} at the axis");
    }
    assert!(plot.contains("end>8</text>"), "an axis of 8 Gbit/s");
}
