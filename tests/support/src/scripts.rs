//! The scripts as a client sends them: each behind the parts that the library puts in front of it.

macro_rules! script {
    ($file:literal after $($part:literal)+) => {
        concat!(
            $(include_str!(concat!("../../../lua/", $part, ".lua")), "\n",)+
            include_str!(concat!("../../../lua/", $file, ".lua"))
        )
    };
}

pub const ACQUIRE: &str =
    script!("acquire" after "fences" "look" "joining" "captions" "labels" "queue" "readers" "fencing");
pub const EXTEND: &str =
    script!("extend" after "forces" "captions" "queue" "permits" "readers" "fences" "fencing");
pub const RELEASE: &str =
    script!("release" after "unawaited" "captions" "announce" "queue" "permits" "readers");
pub const DOWNGRADE: &str = script!("downgrade" after "queue" "readers");
