//! What a trace was taken to have written before its run: a drive in steady state is one that has
//! been written for long, and of a trace that is known only if it was read before, or told.

use crate::figures::bytes as bytes_of;
use mynah_workload::written::distribution;
use mynah_workload::{FlowSpec, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What preconditioning took the writes of a trace to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceWrites {
    /// The flow that replays it.
    pub flow: String,
    /// The namespace that it writes.
    pub namespace: u32,
    /// How much of the namespace it writes, in whole mapping units; null if it was not read for
    /// that.
    pub bytes: Option<u64>,
    /// The share of the namespace that this is.
    pub share: Option<f64>,
    /// The distribution that was assumed, over all of the namespace (`trace_distribution`); null if
    /// the trace was read.
    pub assumed: Option<String>,
}

impl TraceWrites {
    /// Of a flow whose trace was read, and writes so many `bytes` of the `whole` namespace.
    pub fn read(flow: &FlowSpec, bytes: u64, whole: u64) -> TraceWrites {
        TraceWrites {
            flow: flow.name.clone(),
            namespace: flow.namespace.0,
            bytes: Some(bytes),
            share: Some(bytes as f64 / whole.max(1) as f64),
            assumed: None,
        }
    }

    /// Of a flow that replays a trace whose distribution is told; `None` of others.
    pub fn assumed(flow: &FlowSpec) -> Option<TraceWrites> {
        let Source::Trace(trace) = &flow.source else { return None };
        Some(TraceWrites {
            flow: flow.name.clone(),
            namespace: flow.namespace.0,
            bytes: None,
            share: None,
            assumed: Some(distribution(&trace.writes?)),
        })
    }

    /// The same as a sentence, for the notes of a result.
    pub fn note(&self) -> String {
        let TraceWrites { flow, namespace, bytes, share, assumed } = self;
        match assumed {
            Some(distribution) => format!(
                "before the run, flow `{flow}` is taken to have written all of namespace \
                 {namespace} with the distribution {distribution} (trace_distribution), whatever \
                 its trace writes"
            ),
            None => format!(
                "before the run, flow `{flow}` is taken to have written what its trace writes, over \
                 and over: {}, {:.2} % of namespace {namespace}. What no flow writes counts as \
                 written once and never again (--precondition steady:random ages all of it)",
                bytes_of(bytes.unwrap_or(0) as f64),
                share.unwrap_or(0.0) * 100.0
            ),
        }
    }
}
