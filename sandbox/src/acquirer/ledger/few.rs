//! A list of indices that nearly always holds one.

/// Keeps a single index in place and only more of them on the heap.
#[derive(Debug, Default)]
pub(super) enum Few {
    #[default]
    Zero,
    One(u32),
    Many(Vec<u32>),
}

impl Few {
    pub fn push(&mut self, index: u32) {
        match self {
            Few::Zero => *self = Few::One(index),
            Few::One(first) => *self = Few::Many(vec![*first, index]),
            Few::Many(all) => all.push(index),
        }
    }

    /// Pushes what is not in the list yet.
    pub fn insert(&mut self, index: u32) {
        if !self.as_slice().contains(&index) {
            self.push(index);
        }
    }

    pub fn first(&self) -> Option<u32> {
        self.as_slice().first().copied()
    }

    pub fn last(&self) -> Option<u32> {
        self.as_slice().last().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.as_slice().iter().copied()
    }

    pub fn as_slice(&self) -> &[u32] {
        match self {
            Few::Zero => &[],
            Few::One(index) => std::slice::from_ref(index),
            Few::Many(all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_and_is_no_larger_than_a_vector() {
        let mut few = Few::default();
        assert_eq!(few.first(), None);
        few.push(3);
        few.push(1);
        few.insert(3);
        few.push(3);
        assert_eq!(few.as_slice(), [3, 1, 3]);
        few.push(7);
        assert_eq!((few.first(), few.last()), (Some(3), Some(7)));
        assert_eq!(size_of::<Few>(), size_of::<Vec<u32>>());
    }
}
