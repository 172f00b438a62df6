import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TimestampOffset;
import org.apache.kafka.storage.internals.log.TransactionIndex;

/**
 * Apache Kafka's own storage classes as an oracle for the small files of a partition.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "producers", "steps": [...]} and {"do": "epochs", "steps": [...]} play a history and tell the state after every step, {"do":
 * "read", "directory"} reads one file of each kind, {"do": "lock", "path"} says whether the lock was to be had.
 */
public class StorageOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final TopicPartition PARTITION = new TopicPartition("topic", 0);

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", answer(mapper.readTree(line)));
            } catch (Throwable thrown) {
                answer.put("error", thrown.getClass().getSimpleName() + ": " + thrown.getMessage());
            }
            answers.println(mapper.writeValueAsString(answer));
        }
    }

    private static JsonNode answer(JsonNode question) throws Exception {
        switch (question.get("do").asText()) {
            case "producers":
                return new Producers().play(question.get("steps"));
            case "epochs":
                return epochs(question.get("steps"));
            case "read":
                return read(new File(question.get("directory").asText()));
            case "lock":
                try (RandomAccessFile file = new RandomAccessFile(question.get("path").asText(), "rw")) {
                    return JSON.booleanNode(file.getChannel().tryLock() != null);
                }
            default:
                throw new IllegalArgumentException("unknown question " + question);
        }
    }

    private static final class Producers {
        private final File directory = Files.createTempDirectory("producers").toFile();
        private final ProducerStateManager table;
        private final Method batchWithSequenceRange;
        private long end = 0;

        Producers() throws Exception {
            table = new ProducerStateManager(
                PARTITION, directory, 1000, new ProducerStateManagerConfig(1_000_000, false), Time.SYSTEM);
            batchWithSequenceRange =
                ProducerStateEntry.class.getDeclaredMethod("batchWithSequenceRange", int.class, int.class);
            batchWithSequenceRange.setAccessible(true);
        }

        ArrayNode play(JsonNode steps) throws Exception {
            ArrayNode states = JSON.arrayNode();
            for (JsonNode step : steps) {
                String answer;
                try {
                    answer = take(step);
                } catch (ApiException refused) {
                    answer = "error " + Errors.forException(refused).code();
                }
                states.add(answer + state());
            }
            Utils.delete(directory);
            return states;
        }

        private String take(JsonNode step) throws Exception {
            long number = step.path(1).asLong();
            switch (step.get(0).asText()) {
                case "batch":
                    return batch(step);
                case "marker":
                    return marker(step);
                case "high watermark":
                    table.onHighWatermarkUpdated(number);
                    return "";
                case "log start":
                    table.onLogStartOffsetIncremented(number);
                    return "";
                case "expire":
                    table.removeExpiredProducers(number);
                    return "";
                case "snapshot":
                    return table.takeSnapshot(false).isPresent() ? "taken" : "not taken";
                case "reload":
                    table.truncateAndReload(number, step.get(2).asLong(), step.get(3).asLong());
                    end = table.mapEndOffset();
                    return "" + table.latestSnapshotOffset().orElse(-1);
                default:
                    throw new IllegalArgumentException("unknown step " + step);
            }
        }

        private String batch(JsonNode step) throws Exception {
            long producerId = step.get(1).asLong();
            short epoch = (short) step.get(2).asInt();
            int sequence = step.get(3).asInt();
            int count = step.get(4).asInt();
            AppendOrigin origin = AppendOrigin.valueOf(step.get(7).asText());
            int lastSequence = sequence < 0 ? -1 : DefaultRecordBatch.incrementSequence(sequence, count - 1);
            Optional<ProducerStateEntry> known = table.lastEntry(producerId);
            if (origin == AppendOrigin.CLIENT && known.isPresent() && known.get().producerEpoch() == epoch) {
                Optional<?> found = (Optional<?>) batchWithSequenceRange.invoke(known.get(), sequence, lastSequence);
                if (found.isPresent()) {
                    BatchMetadata batch = (BatchMetadata) found.get();
                    return "duplicate " + batch.firstOffset() + " " + batch.lastOffset() + " " + batch.timestamp();
                }
            }
            ProducerAppendInfo append = table.prepareUpdate(producerId, origin);
            append.appendDataBatch(epoch, sequence, lastSequence, step.get(6).asLong(), new LogOffsetMetadata(end),
                end + count - 1, step.get(5).asBoolean());
            table.update(append);
            end += count;
            table.updateMapEndOffset(end);
            return "written";
        }

        private String marker(JsonNode step) {
            ControlRecordType type = step.get(4).asBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
            ProducerAppendInfo append =
                table.prepareUpdate(step.get(1).asLong(), AppendOrigin.valueOf(step.get(7).asText()));
            Optional<CompletedTxn> completed = append.appendEndTxnMarker(
                new EndTransactionMarker(type, step.get(3).asInt()), (short) step.get(2).asInt(), end,
                step.get(6).asLong(), (short) step.get(5).asInt());
            table.update(append);
            String answer = "written";
            if (completed.isPresent()) {
                answer += " " + table.lastStableOffset(completed.get());
                table.completeTxn(completed.get());
            }
            end += 1;
            table.updateMapEndOffset(end);
            return answer;
        }

        private String state() {
            StringBuilder text = new StringBuilder(" | ");
            text.append(table.firstUnstableOffset().map(offset -> offset.messageOffset).orElse(-1L));
            text.append(' ').append(table.firstUndecidedOffset().orElse(-1)).append(' ').append(table.mapEndOffset());
            for (ProducerStateEntry entry : new TreeMap<>(table.activeProducers()).values()) {
                text.append(" [").append(entry.producerId()).append(' ').append(entry.producerEpoch());
                text.append(' ').append(entry.coordinatorEpoch()).append(' ').append(entry.lastTimestamp());
                text.append(' ').append(entry.currentTxnFirstOffset().orElse(-1));
                for (BatchMetadata batch : entry.batchMetadata()) {
                    text.append(' ').append(batch.lastSeq()).append(':').append(batch.lastOffset());
                    text.append(':').append(batch.offsetDelta()).append(':').append(batch.timestamp());
                }
                text.append(']');
            }
            return text.toString();
        }
    }

    private static ArrayNode epochs(JsonNode steps) throws Exception {
        File file = File.createTempFile("epochs", null);
        file.deleteOnExit();
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try {
            LeaderEpochFileCache epochs = new LeaderEpochFileCache(
                PARTITION, new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(1)), scheduler);
            ArrayNode states = JSON.arrayNode();
            for (JsonNode step : steps) {
                String answer = "";
                switch (step.get(0).asText()) {
                    case "assign":
                        epochs.assign(step.get(1).asInt(), step.get(2).asLong());
                        break;
                    case "from end":
                        epochs.truncateFromEndAsyncFlush(step.get(1).asLong());
                        break;
                    case "from start":
                        epochs.truncateFromStartAsyncFlush(step.get(1).asLong());
                        break;
                    case "end offset":
                        Map.Entry<Integer, Long> end = epochs.endOffsetFor(step.get(1).asInt(), step.get(2).asLong());
                        answer = end.getKey() + " " + end.getValue();
                        break;
                    default:
                        answer = "" + epochs.epochForOffset(step.get(1).asLong()).orElse(-1);
                }
                StringBuilder text = new StringBuilder(answer).append(" |");
                for (EpochEntry entry : epochs.epochEntries()) text.append(' ').append(entry.epoch()).append(':').append(entry.startOffset());
                states.add(text.toString());
            }
            return states;
        } finally {
            scheduler.shutdown();
        }
    }

    /** One file of each kind, for the segment that begins at offset 100 and the snapshot at offset 9. */
    private static ObjectNode read(File directory) throws Exception {
        ObjectNode found = JSON.objectNode();
        ArrayNode snapshot = found.putArray("snapshot");
        for (ProducerStateEntry entry : ProducerStateManager.readSnapshot(new File(directory, "00000000000000000009.snapshot"))) {
            ArrayNode fields = snapshot.addArray().add(entry.producerId()).add(entry.producerEpoch());
            BatchMetadata last = null;
            for (BatchMetadata batch : entry.batchMetadata()) last = batch;
            fields.add(last == null ? -1 : last.lastSeq()).add(last == null ? -1 : last.lastOffset());
            fields.add(last == null ? 0 : last.offsetDelta()).add(entry.lastTimestamp());
            fields.add(entry.coordinatorEpoch()).add(entry.currentTxnFirstOffset().orElse(-1));
        }
        ArrayNode index = found.putArray("index");
        try (OffsetIndex offsets = new OffsetIndex(new File(directory, "00000000000000000100.index"), 100, -1, true)) {
            offsets.sanityCheck();
            for (int slot = 0; slot < offsets.entries(); slot++) {
                OffsetPosition entry = offsets.entry(slot);
                index.addArray().add(entry.offset()).add(entry.position());
            }
        }
        ArrayNode timeindex = found.putArray("timeindex");
        try (TimeIndex times = new TimeIndex(new File(directory, "00000000000000000100.timeindex"), 100, -1, true)) {
            times.sanityCheck();
            for (int slot = 0; slot < times.entries(); slot++) {
                TimestampOffset entry = times.entry(slot);
                timeindex.addArray().add(entry.timestamp()).add(entry.offset());
            }
        }
        ArrayNode txnindex = found.putArray("txnindex");
        try (TransactionIndex transactions = new TransactionIndex(100, new File(directory, "00000000000000000100.txnindex"))) {
            transactions.sanityCheck();
            for (AbortedTxn entry : transactions.allAbortedTxns()) {
                txnindex.addArray().add(entry.producerId()).add(entry.firstOffset()).add(entry.lastOffset()).add(entry.lastStableOffset());
            }
        }
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        ArrayNode epochs = found.putArray("leader-epoch-checkpoint");
        for (EpochEntry entry : new LeaderEpochCheckpointFile(new File(directory, "leader-epoch-checkpoint"), failures).read()) {
            epochs.addArray().add(entry.epoch()).add(entry.startOffset());
        }
        ObjectNode offsets = found.putObject("recovery-point-offset-checkpoint");
        new OffsetCheckpointFile(new File(directory, "recovery-point-offset-checkpoint"), failures).read()
            .forEach((partition, offset) -> offsets.put(partition.toString(), offset));
        found.put("partition.metadata", new PartitionMetadataFile(new File(directory, "partition.metadata"), failures).read().topicId().toString());
        found.put(".kafka_cleanshutdown", new CleanShutdownFileHandler(directory.getPath()).read().orElse(-1));
        MetaProperties identity =
            new MetaProperties.Builder(PropertiesUtils.readPropertiesFile(directory + "/meta.properties")).build();
        found.putArray("meta.properties").add(identity.version().number()).add(identity.clusterId().get())
            .add(identity.nodeId().getAsInt()).add(identity.directoryId().get().toString());
        return found;
    }
}
