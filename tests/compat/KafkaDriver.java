import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's own Java clients, driven line by line: one JSON command on standard input, one JSON answer on standard output,
 * {"ok": value} or {"error": "Class: message"}. Keys, values and header values travel as hex. The first argument is the bootstrap
 * address, or "-" when only files are read. The end of the input ends the process at once, with no clean-up: a transaction that was
 * left open stays open.
 */
public class KafkaDriver {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long DEADLINE_MS = 60_000;

    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private Admin admin;

    private KafkaDriver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // What a library prints must not pass for an answer.
        System.setOut(System.err);
        KafkaDriver driver = new KafkaDriver(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", driver.obey(mapper.readTree(line)));
            } catch (Throwable thrown) {
                Throwable cause = thrown instanceof ExecutionException && thrown.getCause() != null ? thrown.getCause() : thrown;
                answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            answers.println(mapper.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    private JsonNode obey(JsonNode command) throws Exception {
        return switch (command.get("do").asText()) {
            case "open_producer" -> openProducer(command);
            case "send" -> send(command);
            case "begin" -> transaction(command, KafkaProducer::beginTransaction);
            case "commit" -> transaction(command, KafkaProducer::commitTransaction);
            case "abort" -> transaction(command, KafkaProducer::abortTransaction);
            case "send_offsets" -> sendOffsets(command);
            case "close_producer" -> closeProducer(command);
            case "create_topic" -> createTopic(command);
            case "topic_id" -> topicId(command);
            case "alter_config" -> alterConfig(command);
            case "set_quota" -> setQuota(command);
            case "set_scram" -> setScram(command);
            case "delete_records" -> deleteRecords(command);
            case "delete_topic" -> deleteTopic(command);
            case "consume" -> consume(command);
            case "consume_in_group" -> consumeInGroup(command);
            case "consume_in_share_group" -> consumeInShareGroup(command);
            case "group_offsets" -> groupOffsets(command);
            case "list_offset" -> listOffset(command);
            case "describe_producers" -> describeProducers(command);
            case "list_transactions" -> listTransactions();
            case "abort_transaction" -> abortTransaction(command);
            case "dump_batches" -> dumpBatches(command);
            default -> throw new IllegalArgumentException("no such command: " + command.get("do"));
        };
    }

    // -- producers ---------------------------------------------------------------------------------------------------------------

    private JsonNode openProducer(JsonNode command) {
        Map<String, Object> settings = clientSettings();
        // One `send` command becomes one batch: nothing leaves before the flush that ends it.
        settings.put("linger.ms", "60000");
        settings.put("batch.size", "1000000");
        settings.put("delivery.timeout.ms", "120000");
        command.get("config").properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        if (settings.containsKey("transactional.id")) producer.initTransactions();
        producers.put(command.get("producer").asText(), producer);
        return JSON.nullNode();
    }

    private JsonNode send(JsonNode command) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(command);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode row : command.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                command.get("topic").asText(),
                command.get("partition").asInt(),
                row.get("timestamp").isNull() ? null : row.get("timestamp").asLong(),
                bytes(row.get("key")),
                bytes(row.get("value")));
            for (JsonNode header : row.get("headers")) record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            sent.add(producer.send(record));
        }
        producer.flush();
        ArrayNode offsets = JSON.arrayNode();
        for (Future<RecordMetadata> one : sent) offsets.add(one.get().offset());
        return offsets;
    }

    private interface Step {
        void on(KafkaProducer<byte[], byte[]> producer);
    }

    private JsonNode transaction(JsonNode command, Step step) {
        step.on(producer(command));
        return JSON.nullNode();
    }

    private JsonNode sendOffsets(JsonNode command) throws Exception {
        try (KafkaConsumer<byte[], byte[]> member = consumer(Map.of("group.id", command.get("group").asText()))) {
            producer(command).sendOffsetsToTransaction(
                Map.of(partition(command), new OffsetAndMetadata(command.get("offset").asLong(), "in a transaction")),
                member.groupMetadata());
        }
        return JSON.nullNode();
    }

    private JsonNode closeProducer(JsonNode command) {
        producers.remove(command.get("producer").asText()).close();
        return JSON.nullNode();
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        return producers.get(command.get("producer").asText());
    }

    // -- administration ----------------------------------------------------------------------------------------------------------

    private JsonNode createTopic(JsonNode command) throws Exception {
        Map<String, String> config = new HashMap<>();
        command.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        String name = command.get("topic").asText();
        NewTopic topic = new NewTopic(name, command.get("partitions").asInt(), (short) 1).configs(config);
        return JSON.textNode(admin().createTopics(List.of(topic)).topicId(name).get().toString());
    }

    private JsonNode topicId(JsonNode command) throws Exception {
        String name = command.get("topic").asText();
        return JSON.textNode(admin().describeTopics(List.of(name)).allTopicNames().get().get(name).topicId().toString());
    }

    private JsonNode alterConfig(JsonNode command) throws Exception {
        ConfigResource resource =
            new ConfigResource(ConfigResource.Type.valueOf(command.get("type").asText()), command.get("name").asText());
        ConfigEntry entry = new ConfigEntry(command.get("key").asText(), command.get("value").asText());
        admin().incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        return JSON.nullNode();
    }

    private JsonNode setQuota(JsonNode command) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of("client-id", command.get("client").asText()));
        ClientQuotaAlteration.Op rate = new ClientQuotaAlteration.Op("producer_byte_rate", command.get("rate").asDouble());
        admin().alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(rate)))).all().get();
        return JSON.nullNode();
    }

    private JsonNode setScram(JsonNode command) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        admin().alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion(command.get("user").asText(), info, command.get("password").asText()))).all().get();
        return JSON.nullNode();
    }

    private JsonNode deleteRecords(JsonNode command) throws Exception {
        TopicPartition partition = partition(command);
        RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("before").asLong());
        return JSON.numberNode(
            admin().deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark());
    }

    private JsonNode deleteTopic(JsonNode command) throws Exception {
        admin().deleteTopics(List.of(command.get("topic").asText())).all().get();
        return JSON.nullNode();
    }

    private JsonNode groupOffsets(JsonNode command) throws Exception {
        ObjectNode found = JSON.objectNode();
        Map<TopicPartition, OffsetAndMetadata> offsets =
            admin().listConsumerGroupOffsets(command.get("group").asText()).partitionsToOffsetAndMetadata().get();
        offsets.forEach((partition, committed) -> {
            ObjectNode one = found.putObject(partition.toString());
            one.put("offset", committed.offset());
            one.put("metadata", committed.metadata());
            one.put("leader_epoch", committed.leaderEpoch().orElse(-1));
        });
        return found;
    }

    private JsonNode listOffset(JsonNode command) throws Exception {
        OffsetSpec wanted = switch (command.get("at").asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(command.get("at").asLong());
        };
        IsolationLevel isolation =
            command.get("committed").asBoolean() ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        TopicPartition partition = partition(command);
        var found = admin().listOffsets(Map.of(partition, wanted), new ListOffsetsOptions(isolation)).partitionResult(partition).get();
        ObjectNode answer = JSON.objectNode();
        answer.put("offset", found.offset());
        answer.put("timestamp", found.timestamp());
        answer.put("leader_epoch", found.leaderEpoch().orElse(-1));
        return answer;
    }

    private JsonNode describeProducers(JsonNode command) throws Exception {
        ArrayNode found = JSON.arrayNode();
        TopicPartition partition = partition(command);
        for (var state : admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers()) {
            ObjectNode one = found.addObject();
            one.put("producer_id", state.producerId());
            one.put("producer_epoch", state.producerEpoch());
            one.put("last_sequence", state.lastSequence());
            one.put("last_timestamp", state.lastTimestamp());
            one.put("coordinator_epoch", state.coordinatorEpoch().orElse(-1));
            one.put("transaction_start_offset", state.currentTransactionStartOffset().orElse(-1));
        }
        return found;
    }

    private JsonNode listTransactions() throws Exception {
        ArrayNode found = JSON.arrayNode();
        for (var listing : admin().listTransactions().all().get()) {
            ObjectNode one = found.addObject();
            one.put("transactional_id", listing.transactionalId());
            one.put("producer_id", listing.producerId());
            one.put("state", listing.state().toString());
        }
        return found;
    }

    /** Ends a transaction that hangs: the coordinator does not know of it, the partition waits for its marker. */
    private JsonNode abortTransaction(JsonNode command) throws Exception {
        admin().abortTransaction(new AbortTransactionSpec(
            partition(command),
            command.get("producer_id").asLong(),
            (short) command.get("producer_epoch").asInt(),
            command.get("coordinator_epoch").asInt())).all().get();
        return JSON.nullNode();
    }

    private Admin admin() {
        if (admin == null) admin = Admin.create(clientSettings());
        return admin;
    }

    // -- consumers ---------------------------------------------------------------------------------------------------------------

    /** Every record of one partition, from its first offset to its end (to its last stable offset if only committed ones count). */
    private JsonNode consume(JsonNode command) {
        TopicPartition partition = partition(command);
        String isolation = command.get("committed").asBoolean() ? "read_committed" : "read_uncommitted";
        ArrayNode rows = JSON.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) rows.add(row(record));
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("not consumed to the end in time");
            }
        }
        return rows;
    }

    /** Joins a group, reads everything of a topic, commits, and leaves. */
    private JsonNode consumeInGroup(JsonNode command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("group.id", command.get("group").asText());
        settings.put("group.protocol", command.get("protocol").asText());
        settings.put("auto.offset.reset", "earliest");
        int wanted = command.get("count").asInt();
        int seen = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.subscribe(List.of(command.get("topic").asText()));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (seen < wanted) {
                seen += consumer.poll(POLL).count();
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("saw only " + seen + " records");
            }
            consumer.commitSync();
        }
        return JSON.numberNode(seen);
    }

    private JsonNode consumeInShareGroup(JsonNode command) throws Exception {
        String group = command.get("group").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        admin().incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        Map<String, Object> settings = clientSettings();
        settings.put("group.id", group);
        int wanted = command.get("count").asInt();
        int seen = 0;
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                 new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(command.get("topic").asText()));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (seen < wanted) {
                seen += consumer.poll(POLL).count();
                consumer.commitSync();
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("saw only " + seen + " records");
            }
        }
        return JSON.numberNode(seen);
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> extra) {
        Map<String, Object> settings = clientSettings();
        settings.put("enable.auto.commit", "false");
        settings.putAll(extra);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        return row(record.offset(), record.timestamp(), record.key(), record.value(), record.headers().toArray());
    }

    // -- files -------------------------------------------------------------------------------------------------------------------

    /** Every batch of a segment or snapshot file with every record in it, as Kafka's own reader sees them. */
    private JsonNode dumpBatches(JsonNode command) throws Exception {
        ArrayNode batches = JSON.arrayNode();
        try (FileRecords file = FileRecords.open(new File(command.get("file").asText()), false)) {
            int position = 0;
            for (RecordBatch batch : file.batches()) {
                batches.add(batch(batch, position));
                position += batch.sizeInBytes();
            }
        }
        return batches;
    }

    private static ObjectNode batch(RecordBatch batch, int position) {
        ObjectNode found = JSON.objectNode();
        found.put("position", position);
        found.put("size_bytes", batch.sizeInBytes());
        found.put("base_offset", batch.baseOffset());
        found.put("last_offset", batch.lastOffset());
        found.put("leader_epoch", batch.partitionLeaderEpoch());
        found.put("magic", batch.magic());
        found.put("crc", batch.checksum());
        found.put("valid", batch.isValid());
        found.put("codec", batch.compressionType().name);
        found.put("timestamp_type", batch.timestampType().name);
        found.put("max_timestamp", batch.maxTimestamp());
        found.put("producer_id", batch.producerId());
        found.put("producer_epoch", batch.producerEpoch());
        found.put("base_sequence", batch.baseSequence());
        found.put("last_sequence", batch.lastSequence());
        found.put("transactional", batch.isTransactional());
        found.put("control", batch.isControlBatch());
        if (batch.deleteHorizonMs().isPresent()) found.put("delete_horizon_ms", batch.deleteHorizonMs().getAsLong());
        found.put("record_count", batch.countOrNull());
        ArrayNode rows = found.putArray("records");
        for (Record record : batch) {
            rows.add(row(record.offset(), record.timestamp(), bytes(record.key()), bytes(record.value()), record.headers()));
        }
        return found;
    }

    // -- values ------------------------------------------------------------------------------------------------------------------

    private static ObjectNode row(long offset, long timestamp, byte[] key, byte[] value, Header[] headers) {
        ObjectNode row = JSON.objectNode();
        row.put("offset", offset);
        row.put("timestamp", timestamp);
        row.put("key", hex(key));
        row.put("value", hex(value));
        ArrayNode list = row.putArray("headers");
        for (Header header : headers) list.addArray().add(header.key()).add(hex(header.value()));
        return row;
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private Map<String, Object> clientSettings() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    private static byte[] bytes(JsonNode hex) {
        return hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] copied = new byte[buffer.remaining()];
        buffer.duplicate().get(copied);
        return copied;
    }
}
