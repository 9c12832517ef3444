//! Expressions as they are looked through for names. The library that reads them overlooks what is
//! cut: of `a.b[-3:n]` it would find only `n`.

/// The expression with `a[x or y]` for `a[x:y]`: it names the same values, and is never evaluated.
pub(crate) fn as_items(text: &str) -> String {
    // Every open bracket, with what stands in it so far, cut at its own colons.
    let mut open = vec![(' ', vec![String::new()])];
    let mut quote = None;
    let mut is_escaped = false;
    for letter in text.chars() {
        let closed = match (quote, letter) {
            (Some(mark), _) => {
                if letter == mark && !is_escaped {
                    quote = None;
                }
                is_escaped = letter == '\\' && !is_escaped;
                None
            }
            (None, '\'' | '"') => {
                quote = Some(letter);
                None
            }
            (None, '[' | '(' | '{') => {
                open.push((letter, vec![String::new()]));
                continue;
            }
            (None, ':') => match open.last_mut() {
                Some(('[', pieces)) => {
                    pieces.push(String::new());
                    continue;
                }
                _ => None,
            },
            (None, ']' | ')' | '}') if open.len() > 1 => open.pop(),
            (None, _) => None,
        };
        let inner = closed.map(|(bracket, pieces)| format!("{bracket}{}", joined(pieces)));
        let Some(piece) = open.last_mut().and_then(|(_, pieces)| pieces.last_mut()) else { continue };
        piece.extend(inner);
        piece.push(letter);
    }
    let pieces = open.into_iter().flat_map(|(_, pieces)| pieces);
    pieces.collect()
}

fn joined(pieces: Vec<String>) -> String {
    if pieces.len() == 1 {
        return pieces.concat();
    }
    let given: Vec<_> = pieces.into_iter().filter(|piece| !piece.trim().is_empty()).collect();
    if given.is_empty() { "0".to_owned() } else { given.join(" or ") }
}

#[cfg(test)]
mod tests {
    use super::as_items;

    #[test]
    fn cuts_become_items_and_nothing_else_changes() {
        for (text, expected) in [
            ("a.b[-3:]", "a.b[-3]"),
            ("a[:]", "a[0]"),
            ("(a or [])[b[1:n]:c:2] + [{'k:]': d}]", "(a or [])[b[1 or n] or c or 2] + [{'k:]': d}]"),
            (r#"{"a\"[": b}["x:y"][0]"#, r#"{"a\"[": b}["x:y"][0]"#),
        ] {
            assert_eq!(as_items(text), expected);
        }
    }
}
