//! What a key may need to have an effect: the kind of link, what is mapped and collected how.
//!
//! A need that only one section knows stands there.

use super::declare::Need;
use super::{File, MappingName};
use crate::at::At;
use mynah_model::config::{Config, Framing, LinkProtocol, MappingScheme, NamespaceKind};
use std::ops::Range;

type Place = Option<Range<usize>>;

pub(super) fn link_protocol(file: &File) -> Place {
    file.link.get().protocol.as_ref().map(At::span)
}

pub(super) fn mapping_kind(file: &File) -> Place {
    file.mapping.kind.as_ref().map(At::span)
}

pub(super) fn rewritable(file: &File) -> Place {
    file.flash.get().rewritable.as_ref().map(At::span)
}

pub(super) fn preemptible(file: &File) -> Place {
    file.gc.preemptible.as_ref().map(At::span)
}

/// For what PCIe and SATA links have.
pub(super) static NOT_ETHERNET: Need = Need {
    holds: |config| config.ethernet.is_none(),
    cause: link_protocol,
    why: "the link is Ethernet",
    help: "remove it",
};

/// For what PCIe links have and SATA links do not.
pub(super) static NOT_SATA: Need = Need {
    holds: |config| config.ethernet.is_some() || config.link.protocol != LinkProtocol::Sata,
    cause: link_protocol,
    why: "the link is SATA",
    help: "remove it",
};

pub(super) static ETHERNET: Need = Need {
    holds: |config| config.ethernet.is_some(),
    cause: link_protocol,
    why: "the link is not Ethernet",
    help: "remove it, or use `protocol = \"ethernet\"`",
};

fn framing(config: &Config) -> Option<Framing> {
    config.ethernet.as_ref().map(|ethernet| ethernet.framing)
}

pub(super) static ROCE: Need = Need {
    holds: |config| !matches!(framing(config), Some(Framing::Tcp { .. })),
    cause: |file| file.link.get().framing.as_ref().map(At::span),
    why: "the framing is NVMe/TCP",
    help: "remove it",
};

pub(super) static NVME_TCP: Need = Need {
    holds: |config| !matches!(framing(config), Some(Framing::RoceV2 { .. })),
    cause: |file| file.link.get().framing.as_ref().map(At::span),
    why: "the framing is RoCE",
    help: "remove it",
};

pub(super) fn is_page_mapped(config: &Config) -> bool {
    config.mapping.scheme == MappingScheme::Page
}

/// A need of page mapping, with what hybrid mapping has in its place.
pub(super) const fn page_mapped(why: &'static str) -> Need {
    Need {
        holds: is_page_mapped,
        cause: mapping_kind,
        why,
        help: "remove it, or use `mapping.kind = \"page\"`",
    }
}

/// For all of `[gc]` that merges do not have.
pub(super) static COLLECTS: Need = Need {
    holds: is_page_mapped,
    cause: mapping_kind,
    why: "hybrid mapping merges log blocks instead of collecting",
    help: "remove it: of `[gc]` only `preemptible` and `copyback` act",
};

pub(super) static HYBRID: Need = Need {
    holds: |config| !is_page_mapped(config),
    cause: mapping_kind,
    why: "there is no log",
    help: "use it with `kind = \"hybrid\"`",
};

/// For what memory has that is erased before it is written again.
pub(super) static ERASED: Need = Need {
    holds: |config| !config.flash.rewritable,
    cause: rewritable,
    why: "rewritable memory needs no table, no collection and no erase",
    help: "remove it",
};

/// For what acts on erases, or by them.
pub(super) static ERASES: Need = Need {
    holds: |config| !config.flash.rewritable,
    cause: rewritable,
    why: "rewritable memory is never erased",
    help: "remove it",
};

/// For namespaces of blocks.
pub(super) static BLOCKS: Need = Need {
    holds: |config| config.namespaces.iter().any(|it| it.kind != NamespaceKind::Pairs),
    cause: |file| {
        let kind = file.namespace.first().and_then(|at| at.get().kind.as_ref()).map(At::span);
        kind.or_else(|| file.kv.as_ref().map(At::span))
    },
    why: "pairs are found by `kv.index`, and there are no blocks",
    help: "remove it",
};

pub(super) static PAIRS: Need = Need {
    holds: |config| config.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs),
    cause: |file| file.namespace.first().map(At::span),
    why: "there is no key-value namespace",
    help: "remove it, or give a namespace `kind = \"kv\"`",
};

/// Whether a file asks for hybrid mapping, whatever else it says.
pub(crate) fn is_hybrid(file: &File) -> bool {
    file.mapping.kind.as_ref().is_some_and(|kind| *kind.get() == MappingName::Hybrid)
}
