//! Answer to `CLIENT LIST`: a line for each connection, `id=3 addr=127.0.0.1:1234 name= …`.

/// Beginning of the names of clients' connections. Behind it are the id of the pool and the number of its
/// masters.
pub(crate) const POOL: &str = "multilock:";

/// Line of one connection.
pub(crate) struct ClientLine<'a>(&'a str);

impl<'a> ClientLine<'a> {
    /// Splits the answer into lines.
    pub(crate) fn all(list: &'a str) -> impl Iterator<Item = Self> {
        list.lines().map(Self)
    }

    /// Value of a field; empty if the line does not have it.
    pub(crate) fn get(&self, field: &str) -> &'a str {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        let found = words.find(|(name, _)| *name == field);
        found.map_or("", |(_, value)| value)
    }
}
