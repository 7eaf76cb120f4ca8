//! Cases of `DistributedLock` (.NET, github.com/madelson/DistributedLock), from `src/DistributedLock.Tests/AbstractTestCases`.

mod acquiring;
mod faults;
mod losing;
mod names;
mod processes;
mod reader_writer;
mod semaphore;
