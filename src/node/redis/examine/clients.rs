//! Connections of this crate's clients to a server, by their names.

use std::time::Duration;

use crate::admin::examination::ClientConnection;

/// Beginning of the names of clients' connections. Behind it are the id of the pool and the number of its masters.
pub(crate) const POOL: &str = "multilock:";

/// Connections to database `db` in an answer to CLIENT LIST, which has a line for each connection:
/// `id=3 addr=127.0.0.1:1234 name= …`.
pub(super) fn read(list: &str, db: i64) -> Vec<ClientConnection> {
    list.lines().filter_map(|line| connection(line, db)).collect()
}

fn connection(line: &str, db: i64) -> Option<ClientConnection> {
    let get = |field: &str| {
        let mut words = line.split(' ').filter_map(|word| word.split_once('='));
        words
            .find(|(name, _)| *name == field)
            .map_or("", |(_, value)| value)
    };
    let (pool, masters) = get("name").strip_prefix(POOL)?.split_once(':')?;
    let seconds = |field: &str| Duration::from_secs(get(field).parse().unwrap_or(0));
    // A connection without the field may use this database.
    let its_db = get("db");
    let is_here = its_db.is_empty() || its_db == db.to_string();
    let client = ClientConnection {
        pool: pool.to_owned(),
        masters: masters.parse().ok()?,
        address: get("addr").to_owned(),
        age: seconds("age"),
        idle: seconds("idle"),
    };
    is_here.then_some(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_this_crate_are_distinguished_from_others() {
        let list = "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:1 fd=8 name=multilock:0a-1:3 age=7 idle=2 flags=N db=0\n\
            id=4 addr=127.0.0.1:6 fd=9 name= age=7 idle=2 flags=N db=0\n\
            id=5 addr=127.0.0.1:7 fd=9 name=multilock:examine age=7 idle=2 flags=N db=0\n\
            id=6 addr=127.0.0.1:8 fd=9 name=multilock:0a-2:many age=7 idle=2 flags=N db=0\n\
            id=7 addr=127.0.0.1:9 fd=9 name=multilock:0a-3:5 age=7 idle=2 flags=N db=4\n";
        let seconds = Duration::from_secs;
        let expected = ClientConnection {
            pool: "0a-1".into(),
            masters: 3,
            address: "127.0.0.1:5".into(),
            age: seconds(7),
            idle: seconds(2),
        };
        assert_eq!(read(list, 0), [expected]);
        let other = read(list, 4);
        assert_eq!((other.len(), other[0].masters), (1, 5));
        assert!(read("", 0).is_empty());
    }
}
