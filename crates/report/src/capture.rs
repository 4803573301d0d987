//! Captures: the modelled packets of an Ethernet link as frames that Wireshark and tshark read.
//!
//! Each modelled packet is a frame: real headers, checksums and NVMe entries, zeros for data, and
//! the moment at which its last byte is on the wire, in whole nanoseconds of virtual time. RoCEv2
//! frames are cut behind what headers and entries take ([`ROCE_SNAP`]), NVMe/TCP's are whole, as
//! readers follow PDUs through the stream. A frame's length is the model's without what captures
//! never have: preamble, frame check and the gap behind it ([`UNSEEN_BYTES`]).
//!
//! What the model does not know is not made up: no connections are set up and nothing is lost.

mod network;
mod nvme;
mod roce;
mod tcp;

use mynah_model::config::{Ethernet, Framing};
use mynah_model::packets::Packet;
use mynah_model::{Drive, Policies};
use mynah_result::output::{OutputError, PendingFile};
use mynah_stamp::{Span, Time};
use network::Network;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use roce::Roce;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;
use tcp::Tcp;

/// Preamble and start of frame 8, frame check 4, gap between packets 12 (IEEE 802.3).
pub const UNSEEN_BYTES: u32 = 24;
/// What is kept of a RoCEv2 frame: the largest headers with a command and a range, 162, and some.
pub const ROCE_SNAP: usize = 192;
/// The longest frame that the file may hold.
const LONGEST: u32 = 65_535;
/// How often the packets are taken from the drive.
const TAKE_EVERY: Span = Span::from_us(100);

/// Encapsulates the packets of a link in Ethernet frames, by its transport.
enum Framer {
    Roce(Roce),
    Tcp(Tcp),
}

impl Framer {
    fn new(ethernet: &Ethernet) -> Framer {
        let network = Network { vlan: ethernet.vlan, ipv6: ethernet.ipv6 };
        match ethernet.framing {
            Framing::RoceV2 { acks, invalidate, .. } => {
                Framer::Roce(Roce::new(network, ethernet, acks, invalidate))
            }
            Framing::Tcp { success_flag } => Framer::Tcp(Tcp::new(network, success_flag)),
        }
    }

    /// The frame from the Ethernet header on, without the frame check sequence.
    fn frame(&mut self, packet: &Packet) -> Vec<u8> {
        match self {
            Framer::Roce(roce) => roce.frame(packet),
            Framer::Tcp(tcp) => tcp.frame(packet),
        }
    }

    fn snap(&self) -> usize {
        match self {
            Framer::Roce(_) => ROCE_SNAP,
            Framer::Tcp(_) => LONGEST as usize,
        }
    }
}

/// A packet capture (pcap) of an Ethernet drive's link, while it is written.
pub struct Capture {
    file: PendingFile,
    writer: PcapWriter<BufWriter<File>>,
    framer: Framer,
    next: Time,
}

impl Capture {
    /// Begins the file at `path`, which appears with [`Capture::finish`], of a drive that has this
    /// link.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(
        path: &Path,
        ethernet: &Ethernet,
        drive: &mut Drive<impl Policies>,
    ) -> Result<Capture, OutputError> {
        let file = PendingFile::create(path)?;
        let header = PcapHeader {
            snaplen: LONGEST,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        let writer = file.file().and_then(|open| {
            PcapWriter::with_header(BufWriter::new(open), header).map_err(io_error)
        });
        let writer = writer.map_err(|error| file.error(error))?;
        drive.keep_packets(true);
        let next = drive.now() + TAKE_EVERY;
        Ok(Capture { file, writer, framer: Framer::new(ethernet), next })
    }

    /// When it wants to look at the drive.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Time has reached [`Capture::next`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn reached(&mut self, drive: &mut Drive<impl Policies>) -> Result<(), OutputError> {
        self.next = drive.now() + TAKE_EVERY;
        let packets = drive.take_packets(drive.now());
        self.write(&packets).map_err(|error| self.file.error(error))
    }

    /// The run has ended; what is still on its way is part of it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self, drive: &mut Drive<impl Policies>) -> Result<(), OutputError> {
        let packets = drive.take_packets(Time::MAX);
        drive.keep_packets(false);
        let written = self.write(&packets);
        written
            .and_then(|()| self.writer.into_writer().flush())
            .map_err(|error| self.file.error(error))?;
        self.file.keep()
    }

    fn write(&mut self, packets: &[Packet]) -> io::Result<()> {
        for packet in packets {
            let frame = self.framer.frame(packet);
            debug_assert_eq!(frame.len() as u32 + UNSEEN_BYTES, packet.bytes, "{packet:?}");
            let kept = &frame[..frame.len().min(self.framer.snap())];
            let at = Duration::from_nanos(packet.at.as_ps() / 1000);
            let record = PcapPacket::new(at, frame.len() as u32, kept);
            self.writer.write_packet(&record).map_err(io_error)?;
        }
        Ok(())
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests;
