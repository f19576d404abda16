//! The known word that a mistyped one was probably meant to be.
//!
//! Runs in: any (pure data).

/// Returns the known word with the fewest edits from `found`, if so few that it was probably meant.
pub(crate) fn nearest<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the word, so that `mod` finds `mode` and nothing finds a word of its own length at random.
    let limit = (found.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|word| (edits(found, word), word))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Counts the single-character insertions, deletions, replacements and swaps of neighbours between two
/// words.
fn edits(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            let is_swap = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
            if is_swap {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_the_one_that_was_meant() {
        let known = ["path", "mode", "command", "concurrency", "env"];
        for (found, meant) in [
            ("mod", "mode"),
            ("paht", "path"),
            ("comand", "command"),
            ("concurency", "concurrency"),
            ("ENV", "none"),
            ("envs", "env"),
            ("url", "none"),
            ("", "none"),
        ] {
            assert_eq!(nearest(found, known).unwrap_or("none"), meant, "{found}");
        }
    }
}
