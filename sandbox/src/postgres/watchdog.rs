//! Ends the server when this process dies without a chance to.
//!
//! A shell waits at the other end of a pipe that only this process holds open. However this
//! process ends, the kernel closes the pipe; the shell then stops the server and removes a
//! throw-away directory. It sits in a process group of its own, so a Ctrl-C in the terminal,
//! or a kill of our whole group, does not reach it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::directory::Directory;
use super::error::StartError;

/// `$1` is the cluster, `$2` the directory to remove (or empty). Each line read is the pid of
/// the server to guard from now on; `bye` means that there is nothing left to do.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
pid=
while read -r line; do
    if [ "$line" = bye ]; then exit 0; fi
    pid=$line
done

serves() {
    if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$pid/cmdline"; else ps -o args= -p "$pid"; fi |
        grep -qF -- "$1"
}

if [ -n "$pid" ] && serves "$1"; then
    kill -INT "$pid"
    tries=0
    while serves "$1" && [ "$tries" -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    if serves "$1"; then kill -QUIT "$pid"; fi
fi

# An initdb cut off in mid-work may still add files.
if [ -n "$2" ]; then
    for _ in 1 2 3; do
        rm -rf -- "$2"
        sleep 1
        [ -e "$2" ] || break
    done
fi
"#;

/// The shell at the other end of the pipe.
pub(super) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    pub fn start(directory: &Directory) -> Result<Watchdog, StartError> {
        let remove = directory.is_throw_away().then(|| directory.path());
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "postgres-watchdog"])
            .arg(directory.pgdata())
            .arg(remove.map(|path| path.as_os_str()).unwrap_or_default())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let shell = command.spawn().map_err(StartError::io("run /bin/sh"))?;
        Ok(Watchdog { shell })
    }

    /// Guards another server from now on.
    pub fn guard(&mut self, pid: u32) {
        self.say(&pid.to_string());
    }

    fn say(&mut self, line: &str) {
        if let Some(pipe) = &mut self.shell.stdin {
            // Fails only if somebody killed the shell; the server works without it.
            let _ = writeln!(pipe, "{line}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.say("bye");
        // Closes the pipe, then reaps the shell.
        let _ = self.shell.wait();
    }
}
