//! Tables: coloured and fitted to the terminal, or plain aligned columns in a pipe.

use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, presets};

use super::Paint;
use super::escape::{one_line, visible};

/// Longest text in one cell. A description may hold 16 KiB.
const CELL_CHARS_MAX: usize = 400;

/// How a cell stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
}

/// One cell. Its text is untrusted.
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: one_line(text.as_ref(), CELL_CHARS_MAX), tone }
    }
}

/// A paragraph as a table of one column: wrapped at words on a terminal.
pub(super) fn paragraph(text: &str) -> Table {
    let mut table = Table::bare().indented();
    for line in visible(text).lines() {
        table.row([Cell { text: line.replace('\t', " "), tone: Tone::Plain }]);
    }
    table
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Rows under headings.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    indent: u16,
    row_lines_max: Option<usize>,
    whole_column: Option<usize>,
}

impl Table {
    pub(crate) fn new<const N: usize>(headings: [&'static str; N]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            indent: 0,
            row_lines_max: None,
            whole_column: None,
        }
    }

    /// A table without headings.
    pub(crate) fn bare() -> Self {
        Self::new([])
    }

    /// Moves the whole table to the right.
    pub(crate) fn indented(mut self) -> Self {
        self.indent = 2;
        self
    }

    /// Cuts on a terminal what does not fit on one line.
    pub(crate) fn one_line_rows(mut self) -> Self {
        self.row_lines_max = Some(1);
        self
    }

    /// Never cuts or wraps this column: it holds what people copy.
    pub(crate) fn whole_column(mut self, index: usize) -> Self {
        self.whole_column = Some(index);
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The table as lines. `width` is the terminal's; in a pipe nothing is wrapped.
    pub(crate) fn render(self, paint: Paint, width: Option<u16>) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if paint == Paint::Colour {
            table.enforce_styling();
        }
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        if !self.headings.is_empty() {
            table.set_header(self.headings.iter().map(|text| {
                comfy_table::Cell::new(text)
                    .add_attribute(Attribute::Bold)
                    .add_attribute(Attribute::Underlined)
            }));
        }
        for row in self.rows {
            let mut row = comfy_table::Row::from(row.into_iter().map(styled).collect::<Vec<_>>());
            if let Some(lines) = self.row_lines_max.filter(|_| width.is_some()) {
                row.max_height(lines);
            }
            table.add_row(row);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { self.indent } else { 0 }, 2));
            if self.whole_column == Some(index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

fn styled(cell: Cell) -> comfy_table::Cell {
    let styled = comfy_table::Cell::new_owned(cell.text);
    match cell.tone {
        Tone::Plain => styled,
        Tone::Strong => styled.fg(Color::Cyan),
        Tone::Dim => styled.add_attribute(Attribute::Dim),
        Tone::Good => styled.fg(Color::Green),
        Tone::Warn => styled.fg(Color::Yellow),
        Tone::Bad => styled.fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_pipe_columns_are_aligned_and_plain() {
        let mut table = Table::new(["name", "what"]);
        table.row(["a".into(), "first\nline".into()]);
        table.row(["longer".into(), Cell::new("\u{1b}[2J", Tone::Bad)]);
        assert_eq!(
            table.render(Paint::Plain, None),
            ["name    what", "a       first line", "longer  \\u{1b}[2J"]
        );
    }
}
