import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache Kafka's coordinator of streams groups and its assignor as an oracle.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "new", "config", "topics"} makes an empty shard for topics, by name {"id", "partitions"}, and "now" in any question sets its clock;
 * "heartbeat" (the request in hex) has it decide and replay what it decided, and gives the records and the answer in hex; "topics" changes
 * the topics, "standbys" the configuration of a group, "advance" does what is due, "restart" makes another shard from the log, "describe"
 * gives the description in hex; {"do": "assign", "members", "parts", "standbys"} gives each member's tasks.
 */
public class StreamsOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final Clock CLOCK = new Clock();
    private static final short VERSION = 0;

    private static GroupCoordinatorShard shard;
    private static GroupConfigManager groupConfigs;
    private static GroupCoordinatorConfig config;
    private static Timer timer;
    private static Topics topics;
    private static List<CoordinatorRecord> log;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", answer(mapper.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
    }

    private static JsonNode answer(JsonNode question) throws Exception {
        if (question.has("now")) {
            CLOCK.now = question.get("now").asLong();
        }
        return switch (question.get("do").asText()) {
            case "new" -> newShard(question);
            case "heartbeat" -> heartbeat(question);
            case "topics" -> changeTopics(question);
            case "standbys" -> changeStandbys(question);
            case "advance" -> records(timer.runDue());
            case "restart" -> restart();
            case "describe" -> describe(question);
            default -> assign(question);
        };
    }

    private static JsonNode newShard(JsonNode question) {
        Map<String, Object> given = new HashMap<>();
        question.get("config").properties().forEach(each -> given.put(each.getKey(), each.getValue().asText()));
        config = new GroupCoordinatorConfig(new AbstractConfig(GroupCoordinatorConfig.CONFIG_DEF, given, false));
        ShareGroupConfig share = ShareGroupConfig.fromProps(Map.of());
        Map<String, Object> ofGroups = new HashMap<>();
        given.forEach((key, value) -> {
            if (key.startsWith("group.streams.") && !key.contains(".min.") && !key.contains(".max.")) {
                ofGroups.put(key.substring("group.".length()), value);
            }
        });
        groupConfigs = new GroupConfigManager(ofGroups, config, share);
        topics = new Topics(question.get("topics"));
        log = new ArrayList<>();
        begin();
        return JSON.nullNode();
    }

    /** A shard without the groups of the one before. */
    private static void begin() {
        timer = new Timer();
        GroupCoordinatorShard.Builder builder = new GroupCoordinatorShard.Builder(config, groupConfigs);
        builder.withLogContext(new LogContext())
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withTime(CLOCK)
            .withTimer(timer)
            .withExecutor(nobody(CoordinatorExecutor.class))
            .withCoordinatorMetrics(new GroupCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0));
        builder.withAuthorizerPlugin(Optional.empty());
        shard = builder.build();
        shard.onMetadataUpdate(CoordinatorMetadataDelta.EMPTY, topics);
    }

    private static JsonNode restart() {
        begin();
        for (int offset = 0; offset < log.size(); offset++) {
            shard.replay(offset, -1, (short) -1, log.get(offset));
        }
        shard.onLoaded(topics);
        return JSON.nullNode();
    }

    private static JsonNode heartbeat(JsonNode question) {
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(question.get("request").asText()));
        StreamsGroupHeartbeatRequestData request = new StreamsGroupHeartbeatRequestData(new ByteBufferAccessor(bytes), VERSION);
        ObjectNode answer = JSON.objectNode();
        try {
            var result = shard.streamsGroupHeartbeat(caller(), request);
            answer.set("records", records(result.records()));
            answer.put("response", hex(result.response().data()));
            ArrayNode missing = answer.putArray("missing");
            new TreeMap<>(result.response().creatableTopics())
                .forEach((name, topic) -> missing.addArray().add(name).add(topic.numPartitions()));
        } catch (Exception error) {
            if (Errors.forException(error) == Errors.UNKNOWN_SERVER_ERROR) {
                error.printStackTrace();
            }
            answer.put("code", Errors.forException(error).code()).put("message", error.getMessage());
        }
        return answer;
    }

    private static JsonNode describe(JsonNode question) {
        var groups = shard.streamsGroupDescribe(List.of(question.get("group").asText()), Long.MAX_VALUE);
        return JSON.textNode(hex(new StreamsGroupDescribeResponseData().setGroups(groups)));
    }

    private static JsonNode changeTopics(JsonNode question) {
        Topics before = topics;
        topics = new Topics(question.get("topics"));
        shard.onMetadataUpdate(new Change(before, topics), topics);
        return JSON.nullNode();
    }

    private static JsonNode changeStandbys(JsonNode question) {
        Properties properties = new Properties();
        properties.put("streams.num.standby.replicas", question.get("standbys").asText());
        groupConfigs.updateGroupConfig(question.get("group").asText(), properties);
        return JSON.nullNode();
    }

    private static JsonNode records(List<CoordinatorRecord> decided) {
        ArrayNode written = JSON.arrayNode();
        for (CoordinatorRecord each : decided) {
            shard.replay(log.size(), -1, (short) -1, each);
            log.add(each);
            byte[] value = SERDE.serializeValue(each);
            written.addArray()
                .add(HexFormat.of().formatHex(SERDE.serializeKey(each)))
                .add(value == null ? null : HexFormat.of().formatHex(value));
        }
        return written;
    }

    private static JsonNode assign(JsonNode question) {
        Map<String, AssignmentMemberSpec> members = new LinkedHashMap<>();
        question.get("members").properties().forEach(member -> {
            JsonNode said = member.getValue();
            members.put(member.getKey(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(said.get("active")), tasks(said.get("standby")), Map.of(),
                said.get("process").asText(), Map.of(), Map.of(), Map.of()));
        });
        Map<String, String> configs = Map.of("num.standby.replicas", question.get("standbys").asText());
        var assigned = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), new Parts(question.get("parts")));
        ObjectNode answer = JSON.objectNode();
        assigned.members().forEach((member, has) -> {
            ObjectNode given = answer.putObject(member);
            put(given.putObject("active"), has.activeTasks());
            put(given.putObject("standby"), has.standbyTasks());
        });
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> found = new LinkedHashMap<>();
        node.properties().forEach(part -> {
            Set<Integer> each = new TreeSet<>();
            part.getValue().forEach(number -> each.add(number.asInt()));
            found.put(part.getKey(), each);
        });
        return found;
    }

    private static void put(ObjectNode node, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((part, numbers) -> {
            ArrayNode list = node.putArray(part);
            new TreeSet<>(numbers).forEach(list::add);
        });
    }

    private static String hex(Message message) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, VERSION).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static AuthorizableRequestContext caller() {
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
            StreamsOracle.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class}, (proxy, method, given) ->
                switch (method.getName()) {
                    case "clientId" -> "a client";
                    case "clientAddress" -> InetAddress.getByName("10.0.0.1");
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    /** Somebody who is not needed, and says false to everything. */
    @SuppressWarnings("unchecked")
    private static <T> T nobody(Class<T> type) {
        return (T) Proxy.newProxyInstance(
            StreamsOracle.class.getClassLoader(), new Class<?>[] {type}, (proxy, method, given) ->
                method.getReturnType() == boolean.class ? false : null);
    }

    private record Parts(JsonNode parts) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            List<String> names = new ArrayList<>();
            parts.fieldNames().forEachRemaining(names::add);
            return names;
        }

        @Override
        public int maxNumInputPartitions(String part) {
            return parts.get(part).get("tasks").asInt();
        }

        @Override
        public boolean isStateful(String part) {
            return parts.get(part).get("stateful").asBoolean();
        }
    }

    private record Topics(JsonNode named) implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            Set<Uuid> ids = new HashSet<>();
            named.forEach(each -> ids.add(Uuid.fromString(each.get("id").asText())));
            return ids;
        }

        @Override
        public Set<String> topicNames() {
            Set<String> names = new HashSet<>();
            named.fieldNames().forEachRemaining(names::add);
            return names;
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(named.get(name))
                .map(each -> new Topic(name, Uuid.fromString(each.get("id").asText()), each.get("partitions").asInt()));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return topicNames().stream().map(name -> topicMetadata(name).get()).filter(each -> each.id().equals(id)).findFirst();
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }

    private record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            // It is sorted by whoever asks.
            return new ArrayList<>();
        }
    }

    /** All topics count as changed, and those that are not there any more as deleted. */
    private record Change(Topics before, Topics after) implements CoordinatorMetadataDelta {
        @Override
        public Collection<Uuid> createdTopicIds() {
            return changedTopicIds();
        }

        @Override
        public Collection<Uuid> changedTopicIds() {
            return after.topicIds();
        }

        @Override
        public Set<Uuid> deletedTopicIds() {
            Set<Uuid> gone = new HashSet<>(before.topicIds());
            gone.removeAll(after.topicIds());
            return gone;
        }

        @Override
        public CoordinatorMetadataImage image() {
            return before;
        }
    }

    /** What is to be done later, when a question says that it is. */
    private static final class Timer implements CoordinatorTimer<CoordinatorRecord> {
        private final Map<String, Later> byKey = new TreeMap<>();

        private record Later(long at, TimeoutOperation<CoordinatorRecord> operation) { }

        @Override
        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            // What a shard does for its own housekeeping is not looked at here.
            if (!key.equals("expire-group-metadata") && !key.equals("group-size-counter")) {
                byKey.put(key, new Later(CLOCK.now + unit.toMillis(delay), operation));
            }
        }

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, operation);
        }

        @Override
        public void scheduleIfAbsent(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            if (!byKey.containsKey(key)) {
                schedule(key, delay, unit, retry, operation);
            }
        }

        @Override
        public void cancel(String key) {
            byKey.remove(key);
        }

        @Override
        public boolean isScheduled(String key) {
            return byKey.containsKey(key);
        }

        /** The records of one operation that is due, the earliest; the same is asked again until there is none. */
        List<CoordinatorRecord> runDue() {
            String next = null;
            for (Map.Entry<String, Later> each : byKey.entrySet()) {
                if (each.getValue().at <= CLOCK.now && (next == null || each.getValue().at < byKey.get(next).at)) {
                    next = each.getKey();
                }
            }
            if (next == null) {
                return List.of();
            }
            CoordinatorResult<Void, CoordinatorRecord> result = byKey.remove(next).operation.generateRecords();
            return result.records().isEmpty() ? runDue() : result.records();
        }
    }

    /** Time that passes when a question says so. */
    private static final class Clock implements Time {
        private long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("nobody waits here");
        }
    }
}
