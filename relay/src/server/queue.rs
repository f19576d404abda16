//! A queue that is first in, first out for each owner and takes the owners in turn.
//!
//! Runs in: any (pure data).

use std::collections::{BTreeMap, VecDeque};

/// Holds what waits, by owner; a busy owner cannot keep a quiet one waiting for more than one turn each.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    turns: VecDeque<u64>,
    waiting: BTreeMap<u64, VecDeque<T>>,
    length: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), waiting: BTreeMap::new(), length: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds to the end of the owner's line.
    pub(crate) fn push(&mut self, owner: u64, item: T) {
        let line = self.waiting.entry(owner).or_default();
        if line.is_empty() {
            self.turns.push_back(owner);
        }
        line.push_back(item);
        self.length += 1;
    }

    /// Puts back what was taken before: the owner has the next turn again.
    pub(crate) fn push_front(&mut self, owner: u64, item: T) {
        self.turns.retain(|turn| *turn != owner);
        self.turns.push_front(owner);
        self.waiting.entry(owner).or_default().push_front(item);
        self.length += 1;
    }

    /// Takes the first of the owner whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let owner = self.turns.pop_front()?;
        let line = self.waiting.get_mut(&owner)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        self.length -= 1;
        Some((owner, item))
    }

    /// Takes out the last of an owner's items that fits.
    pub(crate) fn remove(&mut self, owner: u64, fits: impl Fn(&T) -> bool) -> Option<T> {
        let line = self.waiting.get_mut(&owner)?;
        let item = line.iter().rposition(fits).and_then(|at| line.remove(at))?;
        self.length -= 1;
        if line.is_empty() {
            self.forget(owner);
        }
        Some(item)
    }

    /// Takes out everything of an owner.
    pub(crate) fn remove_all(&mut self, owner: u64) -> VecDeque<T> {
        let line = self.waiting.remove(&owner).unwrap_or_default();
        self.length -= line.len();
        self.turns.retain(|turn| *turn != owner);
        line
    }

    /// Returns all that wait.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.waiting.values_mut().flatten()
    }

    /// Returns how many wait.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    fn forget(&mut self, owner: u64) {
        self.waiting.remove(&owner);
        self.turns.retain(|turn| *turn != owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(mut queue: FairQueue<&str>) -> Vec<&str> {
        std::iter::from_fn(|| queue.pop().map(|(_, item)| item)).collect()
    }

    #[test]
    fn owners_take_turns_and_each_keeps_its_order() {
        let mut queue = FairQueue::default();
        for item in ["a1", "a2", "a3"] {
            queue.push(1, item);
        }
        queue.push(2, "b1");
        assert_eq!(queue.len(), 4);
        let (owner, first) = queue.pop().unwrap();
        queue.push_front(owner, first);
        assert_eq!(queue.len(), 4);
        assert_eq!(drain(queue), ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn what_was_cancelled_or_whose_owner_left_is_not_taken() {
        let mut queue = FairQueue::default();
        for item in ["a1", "a2"] {
            queue.push(1, item);
        }
        queue.push(2, "b1");
        queue.push(3, "c1");
        assert_eq!(queue.remove(1, |item| *item == "a1"), Some("a1"));
        assert_eq!(queue.remove(2, |item| *item == "b1"), Some("b1"));
        assert_eq!(queue.remove(2, |_| true), None);
        assert_eq!(queue.remove_all(3).len(), 1);
        queue.push(2, "b2");
        assert_eq!(queue.len(), 2);
        assert_eq!(drain(queue), ["a2", "b2"]);
    }
}
