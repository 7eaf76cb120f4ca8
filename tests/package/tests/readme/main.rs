//! The start that README shows: its line for servers in a shell, its `main.rs` in an empty crate, and the output below it.
//! Other than there: the servers' ports are free ones, and the crate is this checkout's.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// For the build of an empty crate, and the quarantine of new servers.
const WITHIN_SECONDS: &str = "540";

/// The shell that runs the servers, and all that it has started.
struct Servers(Child);

impl Servers {
    fn start(line: &str, folder: &Path) -> Self {
        // Servers that outlive a test that was killed end then.
        let mut shell = Command::new("timeout");
        shell.args([WITHIN_SECONDS, "sh", "-c", &format!("{line}\nwait")]);
        shell.process_group(0);
        // The line puts each server's files into a folder of its own below this one.
        shell.env("TMPDIR", folder);
        Self(shell.spawn().expect("a shell"))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Code of README's section *Start*, in its order, with the language of each block.
fn start() -> Vec<(String, String)> {
    let readme = fs::read_to_string(format!("{ROOT}/README.md")).expect("README.md");
    let (mut blocks, mut section, mut is_heading) = (Vec::new(), String::new(), false);
    let mut language = None;
    for event in Parser::new(&readme) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                section.clear();
                is_heading = true;
            }
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(word))) => language = Some(word.into_string()),
            Event::End(TagEnd::CodeBlock) => language = None,
            Event::Text(text) if is_heading => section.push_str(&text),
            Event::Text(text) if section == "Start" => {
                if let Some(language) = &language {
                    blocks.push((language.clone(), text.into_string()));
                }
            }
            _ => {}
        }
    }
    blocks
}

/// A port that is free for IPv4 and IPv6: a server listens on both, and ends if one of them is taken.
fn free_port() -> TcpListener {
    TcpListener::bind("[::]:0")
        .or_else(|_| TcpListener::bind("0.0.0.0:0"))
        .expect("a port")
}

/// A line with `#` in the place of every number.
fn shape(line: &str) -> String {
    let digits = |parts: Vec<String>, letter: char| {
        let mut parts = parts;
        match (
            letter.is_ascii_digit(),
            parts.last().is_some_and(|last| last == "#"),
        ) {
            (true, true) => {}
            (true, false) => parts.push("#".to_owned()),
            (false, _) => parts.push(letter.to_string()),
        }
        parts
    };
    line.chars().fold(Vec::new(), digits).concat()
}

/// Returns the output of the program as text, or all of its output if it failed.
fn tried(program: &str, args: &[&str], folder: &Path) -> Result<String, Output> {
    let mut command = Command::new("timeout");
    command
        .args([WITHIN_SECONDS, program])
        .args(args)
        .current_dir(folder);
    // The crate is built apart from the workspace, and once for all runs of this test.
    command.env("CARGO_TARGET_DIR", format!("{ROOT}/target/readme"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    if !output.status.success() {
        return Err(output);
    }
    Ok(String::from_utf8(output.stdout).expect("text"))
}

fn run(program: &str, args: &[&str], folder: &Path) -> String {
    let said = tried(program, args, folder);
    said.unwrap_or_else(|output| panic!("{program} {args:?}: {output:?}"))
}

#[test]
fn the_start_of_readme_works_to_the_letter() {
    let blocks = start();
    let blocks: Vec<(&str, &str)> = blocks
        .iter()
        .map(|(language, text)| (language.as_str(), text.as_str()))
        .collect();
    let [("text", lines), ("rust,no_run", program), ("text", output)] = blocks[..] else {
        panic!("commands, a program and its output: {blocks:#?}");
    };
    let [servers, add] = lines.lines().collect::<Vec<_>>()[..] else {
        panic!("a line for servers and one for the crate: {lines}");
    };

    let listeners = [6379, 6380, 6381].map(|port| (port, free_port()));
    let (mut servers, mut program) = (servers.to_owned(), program.to_owned());
    for (shown, listener) in &listeners {
        let free = listener.local_addr().expect("an address").port().to_string();
        let shown = shown.to_string();
        for text in [&mut servers, &mut program] {
            assert_eq!(text.matches(&shown).count(), 1, "{shown} in {text}");
            *text = text.replace(&shown, &free);
        }
    }
    drop(listeners);

    let folder = TempDir::new().expect("a folder");
    let _servers = Servers::start(&servers, folder.path());
    let app = folder.path().join("app");
    run("cargo", &["new", "-q", "app"], folder.path());
    // So that other versions than the workspace's are not looked for.
    fs::copy(format!("{ROOT}/Cargo.lock"), app.join("Cargo.lock")).expect("the lock file");
    assert!(add.starts_with("cargo add multilock anyhow "), "{add}");
    let add = add.replacen("multilock anyhow", "-q anyhow", 1);
    run("cargo", &["add", "-q", "multilock", "--path", ROOT], &app);
    run("sh", &["-c", &add.replace("tokio", "-q tokio")], &app);
    fs::write(app.join("src/main.rs"), program).expect("main.rs");
    run("cargo", &["build", "-q"], &app);

    // Its deadlines are the defaults, which a busy machine may miss once in a while.
    let said = (0..2).find_map(|_| tried("cargo", &["run", "-q"], &app).ok());
    let said = said.unwrap_or_else(|| run("cargo", &["run", "-q"], &app));
    assert_eq!(shape(&said), shape(output), "{said}");
}
