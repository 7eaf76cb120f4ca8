#!/bin/sh
# rustdoc with unstable options, as docs.rs has it: to show the feature that an item needs. The variable is set for rustdoc
# alone: in the environment of a whole build, it would cause everything to be built again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
