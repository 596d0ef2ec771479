// SPDX-License-Identifier: GPL-2.0
//! Results as a table for a terminal.

use crate::scene::Row;
use comfy_table::{presets::UTF8_HORIZONTAL_ONLY, CellAlignment, Table};

/// An empty one.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table
}

/// One line per congestion control.
pub fn of(rows: &[Row]) -> Table {
    let mut table = new(&[
        "congestion control",
        "throughput\nGbit/s",
        "of line",
        "queueing p99\nus",
        "mean\nus",
        "RTT mean\nus",
        "retrans-\nmits",
        "Jain\nindex",
    ]);
    for row in rows {
        table.add_row([
            row.cc.clone(),
            format!("{:.2}", row.throughput_gbps),
            format!("{:.3}", row.line_share),
            format!("{:.1}", row.queue_p99_us),
            format!("{:.1}", row.queue_mean_us),
            format!("{:.1}", row.rtt_mean_us),
            row.retransmits.to_string(),
            format!("{:.4}", row.jain),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
