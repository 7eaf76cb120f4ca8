//! What `CLIENT LIST` answers: a line for each connection, `id=3 addr=127.0.0.1:1234 name= …`.

/// How the names of clients' connections begin; behind it stand the id of the pool and the number of its masters.
pub(crate) const POOL: &str = "multilock:";

/// One connection.
pub(crate) struct ClientLine<'a>(&'a str);

impl<'a> ClientLine<'a> {
    /// All of them.
    pub(crate) fn all(list: &'a str) -> impl Iterator<Item = Self> {
        list.lines().map(Self)
    }

    /// What it says of that; nothing where it says nothing.
    pub(crate) fn get(&self, field: &str) -> &'a str {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        let found = words.find(|(name, _)| *name == field);
        found.map_or("", |(_, value)| value)
    }
}
