//! Prometheus' text form.

use std::fmt::{Display, Write};

use helve::ports::Histogram;

/// A page of figures in the making.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a figure. Its values follow.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// A figure with one value.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    /// One value of the figure that was begun. `labels` are written already: `tool="a",status="b"`.
    pub(super) fn value(&mut self, name: &str, labels: impl Display, value: impl Display) {
        self.line(format_args!("{name}{{{labels}}} {value}"));
    }

    /// The values of a histogram. `labels` are empty, or end with a comma.
    pub(super) fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let mut below = 0;
        for (bound, count) in Histogram::BOUNDS_US.iter().zip(histogram.counts) {
            below += count;
            self.value(&format!("{name}_bucket"), format_args!("{labels}le=\"{}\"", seconds(*bound)), below);
        }
        let all: u64 = histogram.counts.iter().sum();
        self.value(&format!("{name}_bucket"), format_args!("{labels}le=\"+Inf\""), all);
        let labels = labels.trim_end_matches(',');
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        self.line(format_args!("{name}_sum{labels} {}", seconds(histogram.sum_us)));
        self.line(format_args!("{name}_count{labels} {all}"));
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("writing to a string does not fail");
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// A label's value: what Prometheus asks to be escaped, and no more than is useful.
pub(super) fn escaped(label: &str) -> String {
    let short = label.chars().take(128);
    short
        .flat_map(|c| match c {
            '\\' => vec!['\\', '\\'],
            '"' => vec!['\\', '"'],
            '\n' => vec!['\\', 'n'],
            c if c.is_control() => vec![],
            c => vec![c],
        })
        .collect()
}
