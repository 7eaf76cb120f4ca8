//! Every example runs on real servers and prints the expected text. The example about tests is tested here, too.

mod built;
mod listed;
mod said;

#[path = "../../examples/testing.rs"]
#[allow(dead_code, reason = "it is run as an example; here its tests are")]
mod testing;
