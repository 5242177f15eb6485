//! Tables for people.

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// Columns under their heads, as wide as their widest cell.
pub fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let heads = heads.map(str::to_owned);
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&heads]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let lines: Vec<String> = [&heads].into_iter().chain(rows).map(|row| line(row, widths)).collect();
    lines.join("\n")
}

fn line<const N: usize>(cells: &[String; N], widths: [usize; N]) -> String {
    let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    padded.join("  ").trim_end().to_owned()
}

/// A time in UTC, to the second.
pub fn second(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    at.replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["café".to_owned(), "1".to_owned()], ["a".to_owned(), "22".to_owned()]];
        assert_eq!(table(["NAME", "ID"], &rows), "NAME  ID\ncafé  1\na     22");
    }

    #[test]
    fn an_empty_table_still_has_its_heads() {
        assert_eq!(table(["NAME", "ID"], &[]), "NAME  ID");
    }
}
