#!/bin/sh
# rustdoc with what docs.rs has it do: to say which feature an item is behind, which is not stable yet. Only rustdoc is told
# so: were it in the environment of a whole build, everything would be built anew.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
