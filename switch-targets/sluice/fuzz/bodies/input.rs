//! The input, taken apart from its start. Behind its end the input is all zeros.

pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub fn number(&mut self) -> u64 {
        (0..4).fold(0, |number, _| number << 16 | u64::from(self.word()))
    }

    /// Returns true once in `times`, if the input is random; never at its end.
    pub fn rarely(&mut self, times: u8) -> bool {
        self.byte() % times == times - 1
    }

    /// Takes a number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let number = match limit {
            ..=256 => self.byte().into(),
            _ => usize::from(self.word()),
        };
        number % limit
    }

    pub fn one<'b, T>(&mut self, of: &'b [T]) -> &'b T {
        &of[self.below(of.len())]
    }

    /// Takes as many bytes as the next byte says, times 8 if its upper bit is set; fewer at the end.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.byte();
        self.take(if len < 128 {
            usize::from(len)
        } else {
            usize::from(len - 128) * 8
        })
    }

    pub fn rest(&mut self) -> &'a [u8] {
        self.take(self.0.len())
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
