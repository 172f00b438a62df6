# The types of `log_kernel`, for its compiled twin: what is a C number, which class an attribute holds, what is called as a C
# function. What Python calls is a `def` of the kernel, so that a subclass may have its own.

cimport cython

cdef long long _BATCH_OVERHEAD
cdef long long _FRESH_BYTES_MAX
cdef long long _OFFSET_MAX
cdef long long _RELATIVE_OFFSET_MAX
cdef long long _SEQUENCES
cdef long long _BATCHES_KEPT
cdef long long _NO_TRANSACTION
cdef Py_ssize_t _PLACES_REMEMBERED_MAX
cdef object _NOT_TRANSACTIONAL
cdef object _pack_place
cdef object _BatchMetadata
cdef object _LOG_END
cdef object _HIGH_WATERMARK
cdef object _OFFSET_OUT_OF_RANGE


cdef class SegmentCore:
    cdef readonly object _open_segments
    cdef readonly long long _index_interval_bytes
    cdef public object _file
    cdef public long long _reserve_at
    cdef public object _index_entries_left
    cdef public long long _bytes_since_index_entry
    cdef public object _first_timestamp
    cdef public object _largest_timestamp
    cdef public object _largest_timestamp_offset
    cdef readonly long long roll_jitter_ms
    cdef readonly long long base_offset
    cdef public long long size_bytes

    cdef object open_file(self)
    @cython.locals(
        position=cython.longlong,
        written=cython.longlong,
        largest=cython.longlong,
        unindexed=cython.longlong,
        size=cython.longlong,
        max_timestamp=cython.longlong,
    )
    cdef object write_all(self, object buffers, object batches)
    @cython.locals(first=cython.longlong, position=cython.longlong, segment_bytes=cython.longlong, roll_ms=cython.longlong)
    cdef bint takes(self, object config, long long size, long long last_offset, long long max_timestamp) except -1
    @cython.locals(position=cython.longlong, largest=cython.longlong, written=cython.longlong)
    cdef object write(self, object batch, long long size, long long last_offset, long long max_timestamp)


cdef class SegmentListCore:
    cdef readonly list _base_offsets
    cdef readonly list _segments
    cdef public SegmentCore active

    @cython.locals(slot=Py_ssize_t, active=SegmentCore)
    cdef SegmentCore holder(self, long long offset)


@cython.final
cdef class FreshRun:
    cdef SegmentCore segment
    cdef long long position
    cdef long long base_offset
    cdef long long end_offset
    cdef bytes records


@cython.final
cdef class FoundRegion:
    cdef readonly object region
    cdef readonly SegmentCore segment


@cython.final
cdef class FirstBatchTooLarge:
    cdef readonly long long size_bytes


cdef class LogReaderCore:
    cdef readonly SegmentListCore _segments
    cdef readonly dict _places
    cdef public FreshRun fresh

    @cython.locals(end=cython.longlong, fresh=FreshRun)
    cdef object keep_fresh(self, SegmentCore segment, bytes records, long long base_offset, long long end_offset)
    @cython.locals(
        segment=SegmentCore, place=tuple, position=cython.longlong, end=cython.longlong, first_batch_bytes=cython.longlong
    )
    cdef object find_region(
        self, long long offset, long long bound, long long log_end_offset, long long bytes_max, bint min_one_batch
    )
    @cython.locals(position=cython.longlong, holder=SegmentCore, place=tuple)
    cdef long long _end_position(self, SegmentCore segment, long long bound, long long log_end_offset) except -1
    @cython.locals(places=dict)
    cdef object _remember(self, object offset, SegmentCore segment, long long position)


cdef object _region_of(SegmentCore segment, long long position, long long count)


cdef class ProducersCore:
    cdef readonly dict _producers
    cdef readonly dict _verifications
    cdef readonly object ongoing
    cdef readonly object unreplicated
    cdef public object map_end_offset

    @cython.locals(
        batches=list,
        kept=Py_ssize_t,
        transaction_first_offset=cython.longlong,
        last_sequence=cython.longlong,
        first_offset=cython.longlong,
        last_offset=cython.longlong,
    )
    cdef bint follow(
        self,
        object producer_id,
        object epoch,
        long long base_sequence,
        long long base_offset,
        long long delta,
        long long timestamp,
    ) except -1


cdef class LogCore:
    cdef public object config
    cdef readonly ProducersCore producers
    cdef public object log_start_offset
    cdef public object log_end_offset
    cdef public object high_watermark
    cdef public object fault
    cdef readonly SegmentListCore _segments
    cdef readonly LogReaderCore _reader
    cdef readonly object _durability
    cdef public bint _is_durable
    cdef public long long _assigned_epoch

    @cython.locals(
        delta=cython.longlong,
        max_timestamp=cython.longlong,
        offset=cython.longlong,
        size=cython.longlong,
        end=cython.longlong,
        segment=SegmentCore,
    )
    cdef object _append_alone(self, object batch, long long leader_epoch, bint is_awaited)
    @cython.locals(
        size=cython.longlong,
        room=cython.longlong,
        newest=cython.longlong,
        max_timestamp=cython.longlong,
        segment=SegmentCore,
        fits=bint,
        outcomes=list,
        views=list,
        written=list,
        position=cython.longlong,
        offset=cython.longlong,
        delta=cython.longlong,
    )
    cdef object _append_together(self, object run, long long leader_epoch, bint is_awaited)
    cdef bint _follows(
        self,
        object producer_id,
        object epoch,
        object sequence,
        object offset,
        long long delta,
        long long timestamp,
        object guard,
    ) except -1
    @cython.locals(offset=object, flush_messages=cython.longlong)
    cdef object _end_at_offset(self, long long end)
    @cython.locals(
        start=cython.longlong, end=cython.longlong, bound=cython.longlong, producers=ProducersCore, fresh=FreshRun, records=bytes
    )
    cdef object _read(self, long long offset, long long bytes_max, object upper_bound, bint min_one_batch)
