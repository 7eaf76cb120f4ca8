//! Holder of a lock by its owner field on the masters.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// End of the owner of a writer of Redisson's.
pub(crate) const WRITER: &str = ":write";

/// An owner as the masters store it. An owner's full text is enough to release the lock. So an owner is shown only in
/// part, or by the label of its client if that is known.
///
/// Two holders are equal if their owners are, whether their labels and texts are known or not.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::Masters;
///
/// let masters = cluster.connect(Masters::builder().client_label("billing@web-1")).await?;
/// let guard = masters.red_lock("invoice:42").lock().await?;
/// let holder = guard.holder();
/// assert_eq!(holder.client_label(), Some("billing@web-1"));
/// println!("{holder}, and of its holds this one: {}", holder.redacted_owner());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Holder {
    pub(crate) owner: Arc<str>,
    label: Option<Arc<str>>,
    about: Option<Arc<str>>,
}

impl Holder {
    pub(crate) fn new(owner: impl Into<Arc<str>>, label: Option<Arc<str>>, about: Option<Arc<str>>) -> Self {
        Self {
            owner: owner.into(),
            label,
            about,
        }
    }

    /// Label of the owner's client ([`client_label`](crate::MastersBuilder::client_label)), by the masters that were
    /// asked. A client sends its label when it connects, and again every minute. `None` for
    /// - holders of other libraries,
    /// - clients without the permission to store a label,
    /// - masters that do not know it yet.
    pub fn client_label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Text that the call site of the hold has set by [`about`](crate::MultiLock::about), if the masters know
    /// it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let _importing = masters.red_lock("import").about("rows of 2026-11").lock().await?;
    /// let seen = masters.red_lock("import").inspect().await?;
    /// assert_eq!(seen[0].agreed.as_ref().and_then(|holder| holder.about()), Some("rows of 2026-11"));
    /// # Ok(()) }
    /// ```
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Part of the owner, which differs between the holds of one client: `5f0c2a1b…:17`.
    pub fn redacted_owner(&self) -> impl fmt::Display {
        OwnerExcerpt(&self.owner)
    }
}

impl PartialEq for Holder {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner
    }
}

impl Eq for Holder {}

impl Hash for Holder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.owner.hash(state);
    }
}

/// Part of an owner that differs from others, and is not enough to act as the owner.
struct OwnerExcerpt<'a>(&'a str);

impl fmt::Display for OwnerExcerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, end) = match self.0.strip_suffix(WRITER) {
            Some(owner) => (owner, WRITER),
            None => (self.0, ""),
        };
        let start: String = owner.chars().take(8).collect();
        match owner.rsplit_once(':') {
            Some((_, number)) => write!(f, "{start}…:{number}{end}"),
            None => write!(f, "{start}…{end}"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => f.write_str(label),
            None => OwnerExcerpt(&self.owner).fmt(f),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "Holder({}, {label:?})", OwnerExcerpt(&self.owner)),
            None => write!(f, "Holder({})", OwnerExcerpt(&self.owner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_shown_by_its_label_or_in_part() {
        let owner = "0123456789abcdef:17";
        let known = Holder::new(owner, Some("billing@host:1".into()), None);
        let unknown = Holder::new(owner, None, None);
        assert_eq!(known, unknown, "the owner alone counts");
        assert_eq!(known.to_string(), "billing@host:1");
        assert_eq!(unknown.to_string(), "01234567…:17");
        let importing = Holder::new(owner, None, Some("rows".into()));
        assert_eq!(importing, known, "the owner alone counts");
        assert_eq!(importing.about(), Some("rows"));
        assert_eq!(known.redacted_owner().to_string(), unknown.to_string());
        assert_eq!(format!("{known:?}"), "Holder(01234567…:17, \"billing@host:1\")");
        assert_eq!(format!("{unknown:?}"), "Holder(01234567…:17)");
    }

    /// Otherwise all threads of a client would be shown alike.
    #[test]
    fn a_writer_of_redissons_is_shown_with_its_thread() {
        let writer = Holder::new("0123456789abcdef:17:write", None, None);
        assert_eq!(writer.to_string(), "01234567…:17:write");
    }
}
