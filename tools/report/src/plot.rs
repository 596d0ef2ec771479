// SPDX-License-Identifier: GPL-2.0

//! A plot as inline SVG. Colours are CSS variables, so that one drawing serves light and dark.
//!
//! No plotting crate: those that write SVG fix colours and fonts in the drawing, and what is needed here
//! is four kinds of marks on two axes.

use crate::scale::{Kind, Scale};
use std::fmt::Write as _;

/// Size of a drawing, in its own units, which are pixels at laptop width.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 290.0;
/// Room for axes.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;
/// Steps across a drawing: a line has at most two points in each.
pub(crate) const STEPS: usize = 300;

/// How something is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Marks {
    /// Connected; a NaN is a gap.
    Line(Vec<(f64, f64)>),
    /// Dots, and a line between them.
    Dots(Vec<(f64, f64)>),
    /// Dots alone.
    Scatter(Vec<(f64, f64)>),
    /// One bar; NaN = it never came to that.
    Bar(f64),
}

/// One thing in a plot.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// In the legend.
    pub(crate) name: String,
    /// Which colour.
    pub(crate) color: usize,
    /// Which dashes: 0 = none.
    pub(crate) dash: usize,
    /// What is drawn.
    pub(crate) marks: Marks,
}

/// A plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// Under the title: what exactly is shown.
    pub(crate) note: String,
    pub(crate) x: (String, Kind),
    pub(crate) y: (String, Kind),
    /// Where the x axis ends; none = where the data does.
    pub(crate) x_end: Option<f64>,
    /// The y axis reaches at least this far, so that plots beside each other are alike.
    pub(crate) y_reach: Option<f64>,
    /// What is above this is drawn at this height: a single spike would press all else to the ground.
    pub(crate) y_most: Option<f64>,
    pub(crate) items: Vec<Item>,
}

/// Colours that there are, in the style sheet.
pub(crate) const COLORS: usize = 10;
/// Dashes that there are.
const DASHES: [&str; 4] = ["", "6 3", "2 2", "8 3 2 3"];

impl Plot {
    /// As a `<figure>`; nothing when there is nothing to show.
    pub(crate) fn html(&self) -> Option<String> {
        let svg = if self.items.iter().any(|i| matches!(i.marks, Marks::Bar(_))) {
            self.bars()?
        } else {
            self.chart()?
        };
        let mut legend = String::new();
        for item in &self.items {
            let (c, d) = (item.color % COLORS, DASHES[item.dash % DASHES.len()]);
            let _ = write!(
                legend,
                "<li><svg width=22 height=10 aria-hidden=true><line x1=1 y1=5 x2=21 y2=5 class=\"m c{c}\" stroke-dasharray=\"{d}\"/></svg>{}</li>",
                escape(&item.name)
            );
        }
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!("<p>{}</p>", escape(note)),
        };
        Some(format!(
            "<figure><figcaption><h3>{}</h3>{note}</figcaption>{svg}<ul class=legend>{legend}</ul></figure>\n",
            escape(&self.title)
        ))
    }

    /// All points of lines and dots.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.items
            .iter()
            .flat_map(|i| match &i.marks {
                Marks::Line(p) | Marks::Dots(p) | Marks::Scatter(p) => p.as_slice(),
                Marks::Bar(_) => &[],
            })
            .copied()
    }

    fn chart(&self) -> Option<String> {
        let there = self.points().filter(|p| !p.1.is_nan()).map(|p| p.0);
        let mut x = Scale::new(self.x.1, there.chain(self.x_end), 6)?;
        if let Some(end) = self.x_end {
            x = x.ending_at(end);
        }
        let most = self.y_most.unwrap_or(f64::INFINITY);
        // A NaN stays one: `f64::min` would take the other.
        let seen = |v: f64| if v > most { most } else { v };
        let ys = self.points().map(|p| p.1).chain(self.y_reach);
        let y = Scale::new(self.y.1, ys.map(seen), 5)?;
        let px = |v: f64| LEFT + x.place(v) * (WIDTH - LEFT - RIGHT);
        let py = |v: f64| HEIGHT - BOTTOM - y.place(seen(v)) * (HEIGHT - TOP - BOTTOM);
        let mut out = self.frame();
        for (v, label) in &x.ticks {
            tick_x(&mut out, px(*v), label);
        }
        for (v, label) in &y.ticks {
            tick_y(&mut out, py(*v), label);
        }
        for item in &self.items {
            let (c, d) = (item.color % COLORS, DASHES[item.dash % DASHES.len()]);
            let name = escape(&item.name);
            match &item.marks {
                Marks::Line(points) => {
                    let path = path(points, px, py);
                    let _ = write!(out, "<path class=\"m c{c}\" stroke-dasharray=\"{d}\" d=\"{path}\"><title>{name}</title></path>");
                }
                Marks::Dots(points) => {
                    let path = path(points, px, py);
                    let _ = write!(
                        out,
                        "<path class=\"m c{c}\" stroke-dasharray=\"{d}\" d=\"{path}\"/>"
                    );
                    for &(a, b) in points.iter().filter(|p| p.1.is_finite()) {
                        let _ = write!(out, "<circle class=\"f c{c}\" cx={:.1} cy={:.1} r=3><title>{name}: {}</title></circle>", px(a), py(b), crate::scale::short(b));
                    }
                }
                Marks::Scatter(points) => {
                    // Dots of one kind are one path of round caps: a tenth of the size of circles.
                    let mut d = String::new();
                    for &(a, b) in points.iter().filter(|p| p.1.is_finite()) {
                        let _ = write!(d, "M{:.1} {:.1}h0", px(a), py(b));
                    }
                    let _ = write!(
                        out,
                        "<path class=\"s c{c}\" d=\"{d}\"><title>{name}</title></path>"
                    );
                }
                Marks::Bar(_) => {}
            }
        }
        out.push_str("</svg>");
        Some(out)
    }

    fn bars(&self) -> Option<String> {
        let values: Vec<f64> = self
            .items
            .iter()
            .map(|i| match i.marks {
                Marks::Bar(v) => v,
                _ => f64::NAN,
            })
            .collect();
        let y = Scale::new(self.y.1, values.iter().copied(), 5)?;
        // Room above the highest for its number.
        let height = HEIGHT - TOP - BOTTOM - 14.0;
        let py = |v: f64| HEIGHT - BOTTOM - y.place(v) * height;
        let mut out = self.frame();
        for (v, label) in &y.ticks {
            tick_y(&mut out, py(*v), label);
        }
        let slot = (WIDTH - LEFT - RIGHT) / values.len().max(1) as f64;
        for (i, (item, &v)) in self.items.iter().zip(&values).enumerate() {
            let width = (slot * 0.62).min(64.0);
            let middle = LEFT + slot * (i as f64 + 0.5);
            let left = middle - width / 2.0;
            if !v.is_finite() {
                let _ = write!(
                    out,
                    "<text x={middle:.1} y={:.1} text-anchor=middle>never</text>",
                    HEIGHT - BOTTOM - 5.0
                );
                continue;
            }
            let (top, base) = (py(v), HEIGHT - BOTTOM);
            let fade = if item.dash > 0 {
                " fill-opacity=0.55"
            } else {
                ""
            };
            let _ = write!(
                out,
                "<rect class=\"f c{}\"{fade} x={left:.1} y={top:.1} width={width:.1} height=\"{:.1}\"/><text class=v x={:.1} y={:.1} text-anchor=middle>{}</text>",
                item.color % COLORS,
                (base - top).max(0.5),
                middle,
                top - 4.0,
                crate::scale::short(v)
            );
        }
        out.push_str("</svg>");
        Some(out)
    }

    /// The opening of a drawing, with the names of its axes.
    fn frame(&self) -> String {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img aria-label=\"{}\">",
            escape(&self.title)
        );
        let _ = write!(
            out,
            "<path class=a d=\"M{LEFT} {TOP}V{bottom}H{right}\"/><text class=l x={:.0} y={:.0} text-anchor=middle>{}</text><text class=l transform=\"translate(13 {middle}) rotate(-90)\" text-anchor=middle>{}</text>",
            LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(&self.x.0),
            escape(&self.y.0)
        );
        out
    }
}

fn tick_x(out: &mut String, x: f64, label: &str) {
    let (bottom, text) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 16.0);
    let _ = write!(out, "<path class=g d=\"M{x:.1} {TOP}V{bottom}\"/><text x={x:.1} y={text} text-anchor=middle>{label}</text>");
}

fn tick_y(out: &mut String, y: f64, label: &str) {
    let (right, text) = (WIDTH - RIGHT, LEFT - 6.0);
    let _ = write!(out, "<path class=g d=\"M{LEFT} {y:.1}H{right}\"/><text x={text} y={:.1} text-anchor=end>{label}</text>", y + 4.0);
}

/// The path through points, with gaps at NaN.
fn path(points: &[(f64, f64)], px: impl Fn(f64) -> f64, py: impl Fn(f64) -> f64) -> String {
    let mut d = String::new();
    let mut pen = 'M';
    for &(x, y) in points {
        if y.is_nan() {
            pen = 'M';
            continue;
        }
        let _ = write!(d, "{pen}{:.1} {:.1}", px(x), py(y));
        pen = 'L';
    }
    d
}

/// Text for HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
