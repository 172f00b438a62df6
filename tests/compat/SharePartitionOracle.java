import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * Apache Kafka's own SharePartition as an oracle: its log, its persister and its time are the questions'.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "begin", "deliveries_max", "locks_max", "lock_ms", "start", "states"} · {"do": "acquire", "member", "exact", "batch_size",
 * "records", "batches": [[base, last, producer, kind]...], "aborted": [[producer, first]...]} · {"do": "acknowledge", "member", "said": [[first, last, [types]]...]} · {"do": "release",
 * "member"} · {"do": "settle", "write", "written"} · {"do": "time", "ms"} · {"do": "log_start", "offset"}.
 * Each answer has what came of it, the writes that it has begun, and all that is known then.
 */
public class SharePartitionOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final Uuid TOPIC = new Uuid(7, 7);

    private final List<CompletableFuture<WriteShareGroupStateResult>> writes = new ArrayList<>();
    private ArrayNode begun = JSON.arrayNode();
    private Clock clock;
    private Locks locks;
    private Object partition;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        SharePartitionOracle oracle = new SharePartitionOracle();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", oracle.handle(mapper.readTree(line)));
            } catch (Throwable error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
    }

    private JsonNode handle(JsonNode question) throws Exception {
        begun = JSON.arrayNode();
        ObjectNode answer = JSON.objectNode();
        switch (question.get("do").asText()) {
            case "begin" -> begin(question);
            case "acquire" -> answer.set("acquired", acquire(question));
            case "acknowledge" -> answer.put("refused", refusal(call("acknowledge",
                new Class<?>[] {String.class, List.class}, question.get("member").asText(), said(question))));
            case "release" -> call("releaseAcquiredRecords", new Class<?>[] {String.class}, question.get("member").asText());
            case "settle" -> settle(question.get("write").asInt(), question.get("written").asBoolean());
            case "time" -> {
                int before = writes.size();
                locks.advance(question.get("ms").asLong());
                // What has timed out counts whatever comes of its writes.
                for (int each = before; each < writes.size(); each++) {
                    settle(each, true);
                }
            }
            case "log_start" -> call("updateCacheAndOffsets", new Class<?>[] {long.class}, question.get("offset").asLong());
            default -> throw new IllegalArgumentException(question.toString());
        }
        answer.set("begun", begun);
        answer.put("next", (Long) call("nextFetchOffset", new Class<?>[0]));
        answer.put("start", (Long) call("startOffset", new Class<?>[0]));
        answer.put("end", (Long) call("endOffset", new Class<?>[0]));
        answer.put("completed", (Integer) call("deliveryCompleteCount", new Class<?>[0]));
        answer.put("has_room", (Boolean) call("canAcquireRecords", new Class<?>[0]));
        answer.set("states", states());
        return answer;
    }

    private void begin(JsonNode question) throws Exception {
        writes.clear();
        clock = new Clock();
        locks = new Locks(clock);
        List<PersisterStateBatch> states = new ArrayList<>();
        question.get("states").forEach(each -> states.add(new PersisterStateBatch(
            each.get(0).asLong(), each.get(1).asLong(), (byte) each.get(2).asInt(), (short) each.get(3).asInt())));
        TopicIdPartition topic = new TopicIdPartition(TOPIC, new TopicPartition("t", 0));
        Persister persister = (Persister) Proxy.newProxyInstance(
            Persister.class.getClassLoader(), new Class<?>[] {Persister.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("readState")) {
                    return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(
                        new TopicData<>(TOPIC, List.of(PartitionFactory.newPartitionAllData(
                            0, 1, question.get("start").asLong(), Errors.NONE.code(), null, states))))).build());
                }
                return write((WriteShareGroupStateParameters) arguments[0]);
            });
        Constructor<?> made = null;
        Class<?> type = Class.forName("kafka.server.share.SharePartition");
        for (Constructor<?> each : type.getDeclaredConstructors()) {
            if (each.getParameterCount() == 12) {
                made = each;
            }
        }
        made.setAccessible(true);
        partition = made.newInstance("group", topic, 3, question.get("locks_max").asInt(), question.get("deliveries_max").asInt(),
            question.get("lock_ms").asInt(), locks, clock, persister, replicaManager(), groupConfigs(), null);
        ((CompletableFuture<?>) call("maybeInitialize", new Class<?>[0])).get();
    }

    private CompletableFuture<WriteShareGroupStateResult> write(WriteShareGroupStateParameters parameters) {
        PartitionStateBatchData data = parameters.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        ArrayNode batches = JSON.arrayNode();
        for (PersisterStateBatch each : data.stateBatches()) {
            batches.add(JSON.arrayNode().add(each.firstOffset()).add(each.lastOffset()).add(each.deliveryState())
                .add(each.deliveryCount()));
        }
        ObjectNode told = JSON.objectNode().put("write", writes.size()).put("start", data.startOffset())
            .put("completed", data.deliveryCompleteCount());
        told.set("batches", batches);
        begun.add(told);
        CompletableFuture<WriteShareGroupStateResult> outcome = new CompletableFuture<>();
        writes.add(outcome);
        return outcome;
    }

    private void settle(int write, boolean written) {
        Errors error = written ? Errors.NONE : Errors.COORDINATOR_NOT_AVAILABLE;
        writes.get(write).complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
            TOPIC, List.of(PartitionFactory.newPartitionErrorData(0, error.code(), error.message()))))).build());
    }

    private JsonNode acquire(JsonNode question) throws Exception {
        List<ByteBuffer> buffers = new ArrayList<>();
        int size = 0;
        for (JsonNode each : question.get("batches")) {
            int count = (int) (each.get(1).asLong() - each.get(0).asLong() + 1);
            SimpleRecord[] records = new SimpleRecord[count];
            for (int index = 0; index < count; index++) {
                records[index] = new SimpleRecord(0, null, new byte[1]);
            }
            long base = each.get(0).asLong();
            long producer = each.get(2).asLong();
            MemoryRecords batch = MemoryRecords.withRecords(base, Compression.NONE, records);
            if (each.get(3).asText().equals("transaction")) {
                batch = MemoryRecords.withTransactionalRecords(base, Compression.NONE, producer, (short) 0, 0, 0, records);
            } else if (each.get(3).asText().equals("abort")) {
                batch = MemoryRecords.withEndTransactionMarker(
                    base, 0, 0, producer, (short) 0, new EndTransactionMarker(ControlRecordType.ABORT, 0));
            }
            ByteBuffer buffer = batch.buffer();
            buffers.add(buffer);
            size += buffer.remaining();
        }
        ByteBuffer all = ByteBuffer.allocate(size);
        buffers.forEach(all::put);
        all.flip();
        List<AbortedTransaction> aborted = new ArrayList<>();
        question.get("aborted").forEach(each -> aborted.add(
            new AbortedTransaction().setProducerId(each.get(0).asLong()).setFirstOffset(each.get(1).asLong())));
        FetchPartitionData fetched = new FetchPartitionData(Errors.NONE, 1 << 30, 0, MemoryRecords.readableRecords(all),
            Optional.empty(), OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
        ShareAcquireMode mode = question.get("exact").asBoolean() ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED;
        ShareAcquiredRecords acquired = (ShareAcquiredRecords) call("acquire",
            new Class<?>[] {String.class, ShareAcquireMode.class, int.class, int.class, long.class, FetchPartitionData.class,
                FetchIsolation.class},
            question.get("member").asText(), mode, question.get("batch_size").asInt(), question.get("records").asInt(),
            question.get("offset").asLong(), fetched, FetchIsolation.TXN_COMMITTED);
        ArrayNode rows = JSON.arrayNode();
        for (AcquiredRecords each : acquired.acquiredRecords()) {
            rows.add(JSON.arrayNode().add(each.firstOffset()).add(each.lastOffset()).add(each.deliveryCount()));
        }
        return rows;
    }

    private static List<ShareAcknowledgementBatch> said(JsonNode question) {
        List<ShareAcknowledgementBatch> said = new ArrayList<>();
        question.get("said").forEach(each -> {
            List<Byte> types = new ArrayList<>();
            each.get(2).forEach(type -> types.add((byte) type.asInt()));
            said.add(new ShareAcknowledgementBatch(each.get(0).asLong(), each.get(1).asLong(), types));
        });
        return said;
    }

    private static String refusal(Object future) {
        CompletableFuture<?> outcome = (CompletableFuture<?>) future;
        if (!outcome.isCompletedExceptionally()) {
            return null;
        }
        try {
            outcome.join();
            return null;
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return Errors.forException(cause).name() + ": " + cause.getMessage();
        }
    }

    private JsonNode states() throws Exception {
        ArrayNode rows = JSON.arrayNode();
        for (Object each : ((Map<?, ?>) call("cachedState", new Class<?>[0])).values()) {
            InFlightBatch batch = (InFlightBatch) each;
            for (long offset = batch.firstOffset(); offset <= batch.lastOffset(); offset++) {
                InFlightState state = batch.offsetState() == null ? null : batch.offsetState().get(offset);
                rows.add(JSON.arrayNode().add(offset)
                    .add(state == null ? batch.batchState().id() : state.state().id())
                    .add(state == null ? batch.batchDeliveryCount() : state.deliveryCount())
                    .add(state == null ? batch.batchMemberId() : state.memberId()));
            }
        }
        return rows;
    }

    private Object call(String name, Class<?>[] types, Object... arguments) throws Exception {
        Method method = partition.getClass().getDeclaredMethod(name, types);
        method.setAccessible(true);
        try {
            return method.invoke(partition, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    /** One that was never made, with nobody waiting in it. */
    private static Object replicaManager() throws Exception {
        Object made = unsafe().allocateInstance(Class.forName("kafka.server.ReplicaManager"));
        set(made, "delayedShareFetchPurgatory", new DelayedOperationPurgatory<>("none", new Locks(new Clock()), 0, 1000, false, false));
        return made;
    }

    /** Of no group. */
    private static Object groupConfigs() throws Exception {
        Object made = unsafe().allocateInstance(Class.forName("org.apache.kafka.coordinator.group.GroupConfigManager"));
        set(made, "configMap", new ConcurrentHashMap<>());
        return made;
    }

    private static sun.misc.Unsafe unsafe() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (sun.misc.Unsafe) field.get(null);
    }

    private static void set(Object object, String name, Object value) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        unsafe().putObject(object, unsafe().objectFieldOffset(field), value);
    }

    private static final class Clock implements Time {
        private long nowMs = 0;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public long hiResClockMs() {
            return nowMs;
        }

        @Override
        public void sleep(long ms) {
            nowMs += ms;
        }

        @Override
        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }

        @Override
        public org.apache.kafka.common.utils.Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class Locks implements Timer {
        private record Due(TimerTaskEntry entry, long atMs, long number) { }

        private final Clock clock;
        private final PriorityQueue<Due> due =
            new PriorityQueue<>(java.util.Comparator.comparingLong(Due::atMs).thenComparingLong(Due::number));
        private long number = 0;

        Locks(Clock clock) {
            this.clock = clock;
        }

        @Override
        public void add(TimerTask task) {
            due.add(new Due(new TimerTaskEntry(task, clock.nowMs + task.delayMs), clock.nowMs + task.delayMs, number++));
        }

        void advance(long ms) {
            clock.nowMs += ms;
            while (!due.isEmpty() && due.peek().atMs() <= clock.nowMs) {
                TimerTaskEntry entry = due.poll().entry();
                if (!entry.cancelled()) {
                    entry.timerTask.run();
                }
            }
        }

        @Override
        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        @Override
        public int size() {
            return due.size();
        }

        @Override
        public void close() { }
    }
}
