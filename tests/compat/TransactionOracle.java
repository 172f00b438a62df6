import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import kafka.coordinator.transaction.CoordinatorEpochAndTxnMetadata;
import kafka.coordinator.transaction.TransactionConfig;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionMarkerChannelManager;
import kafka.coordinator.transaction.TransactionStateManager;
import kafka.coordinator.transaction.TransactionalIdAndProducerIdEpoch;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import scala.Option;
import scala.runtime.BoxedUnit;
import scala.util.Either;
import scala.util.Right;

/**
 * Apache Kafka's own transaction coordinator as an oracle, with a log and markers that the tests hold in their hands.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}.
 * {"do": "begin", "version", "two_phases"} makes a coordinator that knows nothing; "load" has it read rows of a log; "init", "add",
 * "verify" and "end" are requests; "time_out" aborts what has been open for too long; "markers" completes what is prepared. Each
 * answer to a request has the "error" that the client gets, the producer "id" and "epoch" where there are any, and the "rows" that
 * were written, key and value in hex.
 */
public class TransactionOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final HexFormat HEX = HexFormat.of();
    private static final int COORDINATOR_EPOCH = 7;

    /** The time that the last question named. */
    private static final class Clock implements Time {
        long nowMs;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
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
        public Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** Every id in a map, every append committed at once. */
    private final class States extends TransactionStateManager {
        States(TransactionConfig config, Metrics metrics) {
            super(1, null, null, null, config, clock, metrics);
        }

        @Override
        public TransactionVersion transactionVersionLevel() {
            return version;
        }

        @Override
        public Either<Errors, Option<CoordinatorEpochAndTxnMetadata>> getTransactionState(String id) {
            TransactionMetadata known = transactions.get(id);
            Option<CoordinatorEpochAndTxnMetadata> found =
                    known == null ? Option.empty() : Option.apply(new CoordinatorEpochAndTxnMetadata(COORDINATOR_EPOCH, known));
            return new Right<>(found);
        }

        @Override
        public Either<Errors, CoordinatorEpochAndTxnMetadata> putTransactionStateIfNotExists(TransactionMetadata created) {
            TransactionMetadata known = transactions.computeIfAbsent(created.transactionalId(), id -> created);
            return new Right<>(new CoordinatorEpochAndTxnMetadata(COORDINATOR_EPOCH, known));
        }

        @Override
        public scala.collection.Iterable<TransactionalIdAndProducerIdEpoch> timedOutTransactions() {
            List<TransactionalIdAndProducerIdEpoch> found = new ArrayList<>();
            for (String id : timedOut) {
                TransactionMetadata known = transactions.get(id);
                found.add(new TransactionalIdAndProducerIdEpoch(id, known.producerId(), known.producerEpoch()));
            }
            return scala.jdk.javaapi.CollectionConverters.asScala(found);
        }

        @Override
        public void appendTransactionToLog(
                String id,
                int coordinatorEpoch,
                TxnTransitMetadata next,
                scala.Function1<Errors, BoxedUnit> then,
                scala.Function1<Errors, Object> retry,
                RequestLocal local) {
            ArrayNode row = JSON.arrayNode();
            row.add(HEX.formatHex(TransactionLog.keyToBytes(id)));
            row.add(HEX.formatHex(TransactionLog.valueToBytes(next, version)));
            rows.add(row);
            transactions.get(id).completeTransitionTo(next);
            then.apply(Errors.NONE);
        }
    }

    private record Prepared(TransactionMetadata metadata, TxnTransitMetadata next) {}

    /** Markers wait until they are asked for; where there is no partition there is nothing to wait for. */
    private final class Markers extends TransactionMarkerChannelManager {
        Markers(KafkaConfig config, TransactionStateManager states) {
            super(config, null, null, states, clock);
        }

        @Override
        public void addTxnMarkersToSend(
                int coordinatorEpoch, TransactionResult result, TransactionMetadata metadata, TxnTransitMetadata next) {
            ObjectNode due = JSON.objectNode();
            due.put("id", metadata.producerId()).put("epoch", metadata.producerEpoch());
            due.put("commit", result == TransactionResult.COMMIT);
            due.put("version", metadata.clientTransactionVersion().featureLevel());
            if (metadata.topicPartitions().isEmpty()) complete(new Prepared(metadata, next));
            else {
                markers.add(due);
                prepared.put(metadata.transactionalId(), new Prepared(metadata, next));
            }
        }
    }

    private final Clock clock = new Clock();
    private final Metrics metrics = new Metrics();
    private final KafkaConfig brokerConfig;
    private Map<String, TransactionMetadata> transactions = new LinkedHashMap<>();
    private Map<String, Prepared> prepared = new LinkedHashMap<>();
    private final List<String> timedOut = new ArrayList<>();
    private ArrayNode rows = JSON.arrayNode();
    private ArrayNode markers = JSON.arrayNode();
    private TransactionVersion version = TransactionVersion.TV_2;
    private long nextProducerId;
    private States states;
    private TransactionCoordinator coordinator;

    private TransactionOracle() {
        Properties properties = new Properties();
        properties.put("process.roles", "broker");
        properties.put("node.id", "1");
        properties.put("controller.quorum.bootstrap.servers", "localhost:9093");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("listeners", "PLAINTEXT://localhost:9092");
        brokerConfig = KafkaConfig.fromProps(properties);
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        TransactionOracle oracle = new TransactionOracle();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", oracle.answer(mapper.readTree(line)));
            } catch (Throwable thrown) {
                answer.put("error", thrown.getClass().getSimpleName() + ": " + thrown.getMessage());
            }
            answers.println(mapper.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    private ObjectNode answer(JsonNode question) {
        clock.nowMs = question.path("now_ms").asLong();
        rows = JSON.arrayNode();
        markers = JSON.arrayNode();
        ObjectNode answer = JSON.objectNode();
        switch (question.get("do").asText()) {
            case "begin" -> begin(question);
            case "load" -> load(question);
            case "init" -> init(question, answer);
            case "add" -> add(question, answer);
            case "verify" -> verify(question, answer);
            case "end" -> end(question, answer);
            case "time_out" -> timeOut(question);
            case "markers" -> completeAll();
            default -> throw new IllegalArgumentException("no such question: " + question);
        }
        answer.set("rows", rows);
        answer.set("markers", markers);
        return answer;
    }

    private void begin(JsonNode question) {
        version = TransactionVersion.fromFeatureLevel((short) question.get("version").asInt());
        nextProducerId = question.get("next_producer_id").asLong();
        transactions = new LinkedHashMap<>();
        prepared = new LinkedHashMap<>();
        TransactionConfig config = new TransactionConfig(
                604_800_000, 900_000, 50, (short) 1, 1 << 20, 1 << 20, 1, 10_000, 3_600_000, question.get("two_phases").asBoolean(), 30_000);
        states = new States(config, new Metrics());
        ProducerIdManager ids = new ProducerIdManager() {
            @Override
            public long generateProducerId() {
                return ++nextProducerId;
            }
        };
        coordinator = new TransactionCoordinator(config, null, () -> ids, states, new Markers(brokerConfig, states), clock, new LogContext());
    }

    /** As a coordinator does that reads its log: what is prepared is about to be completed. */
    private void load(JsonNode question) {
        for (JsonNode row : question.get("rows")) {
            ByteBuffer key = ByteBuffer.wrap(HEX.parseHex(row.get(0).asText()));
            ByteBuffer value = ByteBuffer.wrap(HEX.parseHex(row.get(1).asText()));
            TransactionLog.TxnRecord read = (TransactionLog.TxnRecord) TransactionLog.read(key, value);
            transactions.put(read.transactionId(), read.metadata());
        }
        for (TransactionMetadata known : transactions.values()) {
            switch (known.state()) {
                case PREPARE_COMMIT, PREPARE_ABORT -> prepared.put(
                        known.transactionalId(), new Prepared(known, known.prepareComplete(clock.nowMs)));
                default -> {}
            }
        }
    }

    private void init(JsonNode question, ObjectNode answer) {
        long producerId = question.get("producer_id").asLong();
        short epoch = (short) question.get("producer_epoch").asInt();
        Option<ProducerIdAndEpoch> expected = producerId < 0 ? Option.empty() : Option.apply(new ProducerIdAndEpoch(producerId, epoch));
        coordinator.handleInitProducerId(
                question.get("transactional_id").asText(),
                question.get("timeout_ms").asInt(),
                question.get("enable_2pc").asBoolean(),
                false,
                expected,
                result -> {
                    put(answer, result.error(), result.producerId(), result.producerEpoch());
                    return BoxedUnit.UNIT;
                },
                RequestLocal.noCaching());
    }

    private void add(JsonNode question, ObjectNode answer) {
        coordinator.handleAddPartitionsToTransaction(
                question.get("transactional_id").asText(),
                question.get("producer_id").asLong(),
                (short) question.get("producer_epoch").asInt(),
                partitions(question),
                error -> {
                    answer.put("error", error.name());
                    return BoxedUnit.UNIT;
                },
                TransactionVersion.fromFeatureLevel((short) question.get("version").asInt()),
                RequestLocal.noCaching());
    }

    private void verify(JsonNode question, ObjectNode answer) {
        coordinator.handleVerifyPartitionsInTransaction(
                question.get("transactional_id").asText(),
                question.get("producer_id").asLong(),
                (short) question.get("producer_epoch").asInt(),
                partitions(question),
                result -> {
                    Map<String, String> errors = new TreeMap<>();
                    result.topicResults().forEach(topic -> topic.resultsByPartition().forEach(each -> errors.put(
                            topic.name() + "-" + each.partitionIndex(), Errors.forCode(each.partitionErrorCode()).name())));
                    answer.set("errors", new ObjectMapper().valueToTree(errors));
                    return BoxedUnit.UNIT;
                });
    }

    private void end(JsonNode question, ObjectNode answer) {
        coordinator.handleEndTransaction(
                question.get("transactional_id").asText(),
                question.get("producer_id").asLong(),
                (short) question.get("producer_epoch").asInt(),
                question.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT,
                TransactionVersion.fromFeatureLevel((short) question.get("version").asInt()),
                (error, producerId, epoch) -> {
                    put(answer, error, (Long) producerId, (Short) epoch);
                    return BoxedUnit.UNIT;
                },
                RequestLocal.noCaching());
    }

    private void timeOut(JsonNode question) {
        timedOut.clear();
        question.get("transactional_ids").forEach(id -> timedOut.add(id.asText()));
        coordinator.abortTimedOutTransactions(about -> (error, producerId, epoch) -> BoxedUnit.UNIT);
    }

    private void completeAll() {
        List<Prepared> all = new ArrayList<>(prepared.values());
        prepared.clear();
        all.forEach(this::complete);
    }

    /** The time of the completion is that of the end, at which Kafka has prepared it. */
    private void complete(Prepared done) {
        states.appendTransactionToLog(
                done.metadata().transactionalId(), COORDINATOR_EPOCH, done.next(), error -> BoxedUnit.UNIT, error -> false, RequestLocal.noCaching());
    }

    private static void put(ObjectNode answer, Errors error, long producerId, short epoch) {
        answer.put("error", error.name()).put("id", producerId).put("epoch", epoch);
    }

    private static Set<TopicPartition> partitions(JsonNode question) {
        Set<TopicPartition> found = new HashSet<>();
        question.get("partitions").forEach(each -> found.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        return found;
    }
}
