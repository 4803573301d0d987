//! Tables, which pass by the Arrow C stream interface: who reads them needs nothing of ours, and we
//! nothing of theirs. Times are whole picoseconds.

use crate::failure::{Failure, guarded};
use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, PrimitiveArray, RecordBatch,
    RecordBatchIterator, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{Field, Schema, SchemaRef};
use mynah_result::kind::status_name;
use mynah_result::rows::{OP_NAMES, RequestBatch, RequestColumns, STATUSES, Wide, stages};
use mynah_result::series::{self, Holds};
use mynah_result::{Result as RunResult, StageTime};
use mynah_study::sweep::Column;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// What the interface calls its capsule.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// Columns of the same length.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Table {
    /// The table for whoever speaks Arrow. It stays as it is.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer keep to its own types.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns.
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Bytes that the columns take.
    fn nbytes(&self) -> usize {
        let columns = self.batches.iter().flat_map(RecordBatch::columns);
        // Columns may be parts of one allocation.
        columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
    }
}

impl Table {
    /// A table of these columns, in one batch.
    pub(crate) fn of(columns: Vec<(String, ArrayRef)>) -> Result<Table, Failure> {
        let field = |(name, array): &(String, ArrayRef)| {
            Field::new(name, array.data_type().clone(), array.is_nullable())
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(|e| unfit(&e))?;
        Ok(Table { schema, batches: vec![batch] })
    }

    /// Completed requests, of flows with these names.
    pub(crate) fn of_requests(
        batches: Vec<RequestColumns>,
        flows: &[String],
        has_link: bool,
    ) -> Result<Table, Failure> {
        let names = Names::new(flows);
        let mut made = Vec::new();
        for batch in batches {
            made.push(Table::of(requests(batch, &names, has_link)?)?);
        }
        if made.is_empty() {
            let none = RequestBatch::new(has_link).into_columns();
            made.push(Table::of(requests(none, &names, has_link)?)?);
        }
        let schema = made[0].schema.clone();
        Ok(Table { schema, batches: made.into_iter().flat_map(|table| table.batches).collect() })
    }
}

fn unfit(error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("this cannot be made a table: {error}"), None)
}

/// The words that numbers in rows stand for. Batches share them.
struct Names {
    flows: ArrayRef,
    ops: ArrayRef,
    statuses: ArrayRef,
}

impl Names {
    fn new(flows: &[String]) -> Names {
        let statuses = STATUSES.map(status_name);
        Names {
            flows: Arc::new(StringArray::from_iter_values(flows)),
            ops: Arc::new(StringArray::from_iter_values(OP_NAMES)),
            statuses: Arc::new(StringArray::from_iter_values(statuses)),
        }
    }
}

/// The columns of completed requests: as the request log has them, but in picoseconds.
fn requests(
    mut batch: RequestColumns,
    names: &Names,
    has_link: bool,
) -> Result<Vec<(String, ArrayRef)>, Failure> {
    let small = |numbers: Vec<i8>, names: &ArrayRef| {
        let keys = PrimitiveArray::<Int8Type>::from(numbers);
        let made = DictionaryArray::try_new(keys, names.clone()).map_err(|e| unfit(&e))?;
        Ok::<_, Failure>(Arc::new(made) as ArrayRef)
    };
    // They lie in one allocation, which all of them share.
    let all = Buffer::from_vec(std::mem::take(&mut batch.wide));
    let whole = |column: Wide| {
        let place = batch.place(column);
        let values = ScalarBuffer::new(all.clone(), place.start, place.len());
        Arc::new(UInt64Array::new(values, None)) as ArrayRef
    };
    let stages = stages(has_link).into_iter().enumerate();
    let spans: Vec<_> = stages
        .map(|(number, stage)| (format!("{}_ps", stage.name()), whole(Wide::StagePs(number))))
        .collect();
    let times = [
        ("created_ps", Wide::CreatedPs),
        ("inserted_ps", Wide::InsertedPs),
        ("completed_ps", Wide::CompletedPs),
        ("latency_ps", Wide::LatencyPs),
    ]
    .map(|(name, column)| (name.to_owned(), whole(column)));
    let (id, sector) = (whole(Wide::Id), whole(Wide::Sector));
    let flow = PrimitiveArray::<Int32Type>::from(batch.flow);
    let flow = DictionaryArray::try_new(flow, names.flows.clone()).map_err(|e| unfit(&e))?;
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("id".to_owned(), id),
        ("flow".to_owned(), Arc::new(flow)),
        ("queue".to_owned(), Arc::new(UInt16Array::from(batch.queue))),
        ("op".to_owned(), small(batch.op, &names.ops)?),
        ("sector".to_owned(), sector),
        ("sectors".to_owned(), Arc::new(UInt32Array::from(batch.sectors))),
        ("status".to_owned(), small(batch.status, &names.statuses)?),
    ];
    columns.extend(times);
    columns.extend(spans);
    Ok(columns)
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

/// Picoseconds of a result's nanoseconds.
fn whole_ps(ns: f64) -> u64 {
    (ns * 1e3).round() as u64
}

/// Where the time of a result's requests went: of all of them, and of each flow's kinds of commands.
pub(crate) fn of_stages(result: &RunResult) -> Result<Table, Failure> {
    let mut rows: Vec<(&str, &str, &StageTime)> = Vec::new();
    rows.extend(result.stages.iter().map(|stage| ("*", "*", stage)));
    for flow in &result.flows {
        for (kind, side) in flow.sides() {
            let name = flow.name.as_str();
            rows.extend(side.stages.iter().map(|stage| (name, kind.name(), stage)));
        }
    }
    let text = |of: fn(&(&str, &str, &StageTime)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    let whole = |of: fn(&StageTime) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| of(row.2))))
    };
    let part = |of: fn(&StageTime) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| of(row.2))))
    };
    Table::of(vec![
        ("flow".to_owned(), text(|row| row.0.to_owned())),
        ("op".to_owned(), text(|row| row.1.to_owned())),
        ("stage".to_owned(), text(|row| row.2.stage.clone())),
        ("count".to_owned(), whole(|stage| stage.count)),
        ("mean_ps".to_owned(), whole(|stage| whole_ps(stage.mean_ns))),
        ("p99_ps".to_owned(), whole(|stage| whole_ps(stage.p99_ns))),
        ("share".to_owned(), part(|stage| stage.share)),
        ("tail_mean_ps".to_owned(), whole(|stage| whole_ps(stage.tail_mean_ns))),
        ("tail_share".to_owned(), part(|stage| stage.tail_share)),
    ])
}

/// The table of who waited for whom.
pub(crate) fn of_blame(result: &RunResult) -> Result<Table, Failure> {
    let blame = || result.blame.iter();
    let wait = UInt64Array::from_iter_values(blame().map(|it| whole_ps(it.wait_ns)));
    Table::of(vec![
        ("victim".to_owned(), texts(blame().map(|it| it.victim.as_str()))),
        ("holder".to_owned(), texts(blame().map(|it| it.holder.as_str()))),
        ("resource".to_owned(), texts(blame().map(|it| it.resource.as_str()))),
        ("wait_ps".to_owned(), Arc::new(wait)),
    ])
}

/// The columns of a sweep's table.
pub(crate) fn of_sweep(columns: Vec<(String, Column)>) -> Result<Table, Failure> {
    let made = columns.into_iter().map(|(name, column)| (name, array(column)));
    Table::of(made.collect())
}

fn array(column: Column) -> ArrayRef {
    match column {
        Column::Text(each) => texts(each.iter().map(String::as_str)),
        Column::Count(each) => Arc::new(UInt64Array::from(each)),
        Column::Number(each) => Arc::new(Float64Array::from(each)),
    }
}

/// The table that the text of an intervals file holds. Its columns have one type each: times whole
/// picoseconds, and what is empty there null.
#[pyfunction]
pub(crate) fn intervals(py: Python<'_>, text: &str) -> PyResult<Table> {
    guarded(py, || {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let has_slc = [false, true].into_iter().find(|&has_slc| first == series::header(has_slc));
        let has_slc = has_slc.ok_or_else(|| Failure::usage("this is no intervals file", None))?;
        let named = || series::columns(has_slc);
        let mut columns: Vec<Building> = named().map(|(_, holds)| Building::of(holds)).collect();
        for line in lines {
            let mut rest = line;
            for column in &mut columns {
                let field = next_field(&mut rest);
                column.push(&field).ok_or_else(|| {
                    let message = format!("`{field}` is no value of an intervals file");
                    Failure::usage(message, None)
                })?;
            }
        }
        let finished = |((name, _), column): ((&str, Holds), Building)| {
            let name = match column {
                Building::Picoseconds(_) => name.replace("_ns", "_ps"),
                _ => name.to_owned(),
            };
            (name, column.finish())
        };
        Table::of(named().zip(columns).map(finished).collect())
    })
}

/// A field of a CSV line, which is taken off it.
fn next_field(rest: &mut &str) -> String {
    let Some(quoted) = rest.strip_prefix('"') else {
        let (field, after) = rest.split_once(',').unwrap_or((rest, ""));
        *rest = after;
        return field.to_owned();
    };
    let mut field = String::new();
    let mut parts = quoted;
    loop {
        let (part, after) = parts.split_once('"').unwrap_or((parts, ""));
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                parts = more;
            }
            None => {
                *rest = after.strip_prefix(',').unwrap_or(after);
                return field;
            }
        }
    }
}

/// A column of an intervals file, being read.
enum Building {
    Text(StringBuilder),
    Flag(BooleanBuilder),
    Picoseconds(UInt64Builder),
    Count(UInt64Builder),
    Number(Float64Builder),
}

impl Building {
    fn of(holds: Holds) -> Building {
        match holds {
            Holds::Text => Building::Text(StringBuilder::new()),
            Holds::Flag => Building::Flag(BooleanBuilder::new()),
            Holds::Nanoseconds => Building::Picoseconds(UInt64Builder::new()),
            Holds::Count => Building::Count(UInt64Builder::new()),
            Holds::Number => Building::Number(Float64Builder::new()),
        }
    }

    fn push(&mut self, field: &str) -> Option<()> {
        let given = !field.is_empty();
        match self {
            Building::Text(column) => column.append_value(field),
            Building::Flag(column) => column.append_value(field == "1"),
            Building::Count(column) => {
                column.append_option(if given { Some(field.parse().ok()?) } else { None });
            }
            Building::Number(column) => {
                column.append_option(if given { Some(field.parse().ok()?) } else { None });
            }
            Building::Picoseconds(column) => {
                column.append_option(if given { Some(picoseconds(field)?) } else { None });
            }
        }
        Some(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Building::Text(mut column) => Arc::new(column.finish()),
            Building::Flag(mut column) => Arc::new(column.finish()),
            Building::Picoseconds(mut column) | Building::Count(mut column) => {
                Arc::new(column.finish())
            }
            Building::Number(mut column) => Arc::new(column.finish()),
        }
    }
}

/// The picoseconds of nanoseconds with three decimals.
fn picoseconds(field: &str) -> Option<u64> {
    let (whole, part) = field.split_once('.')?;
    if part.len() != 3 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part.parse().ok()?)
}
