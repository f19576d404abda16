//! Durations of contenders that took turns, and what they say: minima, medians, and medians of the ratios within a
//! round. A noisy machine disturbs both sides of a round alike, so the ratios are what counts.
//!
//! Runs in: bench.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What was measured of one contender.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// One value a round, for the ratios: what it took, or the median of what several took.
    pub rounds: Vec<Duration>,
    /// Everything that was measured.
    pub all: Vec<Duration>,
}

impl Row {
    /// An empty one.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rounds: Vec::new(), all: Vec::new() }
    }

    /// Takes one round.
    pub fn take(&mut self, mut round: Vec<Duration>) {
        self.all.extend(&round);
        round.sort_unstable();
        self.rounds.extend(round.get(round.len() / 2));
    }
}

/// A table of contenders, and to whom they are compared.
#[derive(Debug)]
pub struct Tally {
    /// What was measured.
    pub title: String,
    /// The contenders.
    pub rows: Vec<Row>,
    /// The names of those that the others are divided by.
    pub bases: Vec<String>,
}

impl Tally {
    fn ratio(&self, row: &Row, base: &str) -> f64 {
        let Some(base) = self.rows.iter().find(|row| row.name == base) else { return f64::NAN };
        let mut ratios: Vec<f64> = row
            .rounds
            .iter()
            .zip(&base.rounds)
            .map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64())
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        let wide = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(9);
        let _ =
            write!(text, "{:wide$} {:>9} {:>9} {:>9}", "contender", "min us", "p50 us", "p99 us");
        for base in &self.bases {
            let _ = write!(text, " {:>12}", format!("x {base}"));
        }
        text.push('\n');
        for row in &self.rows {
            let [min, half, most] = figures(row);
            let _ = write!(text, "{:wide$} {min:>9.1} {half:>9.1} {most:>9.1}", row.name);
            for base in &self.bases {
                let _ = write!(text, " {:>12.2}", self.ratio(row, base));
            }
            text.push('\n');
        }
        text
    }

    /// As one JSON object.
    pub fn json(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let [min, half, most] = figures(row);
                let ratios: Vec<String> = self
                    .bases
                    .iter()
                    .map(|base| format!("\"{base}\":{:.4}", self.ratio(row, base)))
                    .collect();
                format!(
                    "{{\"name\":\"{}\",\"rounds\":{},\"min_us\":{min:.1},\"p50_us\":{half:.1},\"p99_us\":{most:.1},\
                     \"ratio\":{{{}}}}}",
                    row.name,
                    row.rounds.len(),
                    ratios.join(",")
                )
            })
            .collect();
        format!("{{\"title\":\"{}\",\"rows\":[{}]}}", self.title, rows.join(","))
    }
}

/// Minimum, median and 99th percentile in microseconds.
fn figures(row: &Row) -> [f64; 3] {
    let mut all = row.all.clone();
    all.sort_unstable();
    let at = |part: usize| {
        let index = (all.len() * part / 100).min(all.len().saturating_sub(1));
        all.get(index).map_or(f64::NAN, |taken| taken.as_secs_f64() * 1e6)
    };
    [at(0), at(50), at(99)]
}

/// Puts the turns of a round into an order of its own.
#[derive(Debug)]
pub struct Shuffle(u64);

impl Shuffle {
    /// Starts from the clock.
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::from(now.subsec_nanos()) << 20 | 1)
    }

    /// Returns the numbers below `count` in a new order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // xorshift64: any order will do that is not always the same.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let other = usize::try_from(self.0 % (last as u64 + 1)).unwrap_or(0);
            order.swap(last, other);
        }
        order
    }
}
