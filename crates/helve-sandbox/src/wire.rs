//! Messages with file descriptors between Helve, its launcher and its boxes.
//!
//! All of it stays on one machine and in one program, so there are no versions: both ends are the
//! same executable.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::policy::Limits;
use crate::report::{Confinement, End, Level, Usage};

/// Longest message. What can be longer goes into a [`sheet`].
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Most descriptors with one message.
pub(crate) const DESCRIPTORS_MAX: usize = 200;

/// What Helve asks the launcher for; with it come the order's sheet, three streams, and the box's end of
/// the talk with Helve.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// A program in a box.
    Box,
    /// A program that is not confined.
    Unconfined,
}

/// What a box is to do; with it come its three streams and its end of the talk with Helve.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) program: PathBuf,
    /// What the program is told it is called: some do what their name says.
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) work_dir: PathBuf,
    pub(crate) grants: Vec<Grant>,
    /// What lies in a grant and is not to be seen.
    pub(crate) hidden: Vec<PathBuf>,
    /// Something of Helve's own that lies in a grant, and that only a box keeps from the program.
    pub(crate) only_boxed: Option<PathBuf>,
    /// Ports at which the box listens for Helve.
    pub(crate) listen: Vec<u16>,
    pub(crate) limits: Limits,
    pub(crate) min_level: Level,
    pub(crate) files: Vec<FileHead>,
}

/// A file or folder of the host that the program sees under the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Its real path.
    pub(crate) path: PathBuf,
    /// Under which other name it was asked for, where that is a link.
    pub(crate) link: Option<PathBuf>,
    pub(crate) writable: bool,
}

/// A file for the work directory; the contents follow the order, one after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileHead {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) executable: bool,
}

/// What a box tells Helve.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromBox {
    /// It has a first process; with it comes the handle to kill it, where all else in it would die
    /// with it.
    Started,
    /// The program runs; with it come the work directory and the listeners that were asked for.
    Running(Confinement),
    /// The program could not be started.
    Refused(String),
    /// Files are in the work directory, or why not.
    Put(Result<(), String>),
    /// The program and everything it started have ended.
    Ended { end: End, usage: Usage },
    /// The box is gone.
    Closed { out_of_memory: bool, memory_peak_bytes: Option<u64> },
}

/// What Helve tells a box.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToBox {
    /// Put files into the work directory; with it comes their sheet.
    Put(Vec<FileHead>),
    /// Ask every process to end.
    Terminate,
    /// End every process.
    Kill,
}

/// Two ends that keep messages apart.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message with descriptors.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MESSAGE_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message with its descriptors; `None` when the other end is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket.as_fd(), &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            // The other end went away with something unread.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(&bytes[..received.bytes])?;
    Ok(Some((message, descriptors)))
}

/// A file in memory that holds a head and then the contents of files.
pub(crate) fn sheet<'a>(
    head: &impl Serialize,
    contents: impl IntoIterator<Item = &'a [u8]>,
) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("helve-order", MemfdFlags::CLOEXEC)?);
    let head = serde_json::to_vec(head)?;
    file.write_all(&(head.len() as u64).to_le_bytes())?;
    file.write_all(&head)?;
    contents.into_iter().try_for_each(|content| file.write_all(content))?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Reads the head of a sheet; what follows are the contents.
pub(crate) fn read_sheet<T: DeserializeOwned>(sheet: OwnedFd) -> io::Result<(T, File)> {
    let mut file = File::from(sheet);
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut head = Vec::new();
    (&mut file).take(length).read_to_end(&mut head)?;
    Ok((serde_json::from_slice(&head)?, file))
}
