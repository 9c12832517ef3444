//! As little of IMAP as the comparison needs: one command at a time, answers counted and thrown away.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use helve_testkit::OfficeServers;

pub(crate) struct RawImap {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl RawImap {
    /// Logged in as somebody, without TLS, which would only slow it down.
    pub(crate) fn login(servers: &OfficeServers, user: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", servers.port("/imap/port"))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut imap = Self { stream: BufReader::with_capacity(256 << 10, stream), line: Vec::new() };
        imap.read_line();
        imap.run(&format!("LOGIN {user}@example.test {user}-pw"));
        imap
    }

    /// Runs a command. How many messages its answer names.
    pub(crate) fn run(&mut self, command: &str) -> usize {
        self.stream.get_mut().write_all(format!("t {command}\r\n").as_bytes()).unwrap();
        let mut count = 0;
        loop {
            self.read_line();
            if self.line.starts_with(b"t ") {
                assert!(self.line.starts_with(b"t OK"), "{command}: {}", String::from_utf8_lossy(&self.line));
                return count;
            }
            if self.line.starts_with(b"* SEARCH") {
                count += self.line.split(|byte| *byte == b' ').skip(2).count();
            } else if self.line.windows(8).any(|part| part == b" FETCH (") {
                count += 1;
            }
            while let Some(length) = self.literal() {
                let skipped =
                    std::io::copy(&mut self.stream.by_ref().take(length), &mut std::io::sink()).unwrap();
                assert_eq!(skipped, length);
                self.read_line();
            }
        }
    }

    fn read_line(&mut self) {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line).unwrap();
        assert!(!self.line.is_empty(), "the server went away");
    }

    /// How many bytes follow the line.
    fn literal(&self) -> Option<u64> {
        let line = self.line.strip_suffix(b"}\r\n")?;
        let from = line.iter().rposition(|byte| *byte == b'{')?;
        std::str::from_utf8(&line[from + 1..]).ok()?.parse().ok()
    }
}
