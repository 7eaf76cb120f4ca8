//! Cases of Curator's `TestLeaderLatch` (github.com/apache/curator, `curator-recipes/src/test/java/org/apache/curator/framework/recipes/leader/TestLeaderLatch.java`).

mod connections;
mod elections;
mod listeners;
mod races;
