import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache Kafka's share coordinator and its assignor of share groups as an oracle.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "new", "updates", "topics"} makes an empty shard for topics with so many partitions, and "now" in any question sets its clock;
 * "initialize", "read", "write", "delete", "summary", "cold" and "gone" have it decide, replay what it decided, and give the records in hex
 * and the answer; {"do": "assign", "members", "topics"} gives each member's partitions, by topic.
 */
public class ShareOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();
    private static final Clock CLOCK = new Clock();

    private static ShareCoordinatorShard shard;
    private static long offset;

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

    private static JsonNode answer(JsonNode question) {
        if (question.has("now")) {
            CLOCK.now = question.get("now").asLong();
        }
        return switch (question.get("do").asText()) {
            case "new" -> newShard(question);
            case "initialize" -> initialize(question);
            case "read" -> read(question);
            case "write" -> write(question);
            case "delete" -> delete(question);
            case "summary" -> summary(question);
            case "cold" -> done(shard.snapshotColdPartitions(), JSON.nullNode());
            case "gone" -> done(shard.maybeCleanupShareState(Set.of(uuid(question.get("topic")))), JSON.nullNode());
            default -> assign(question);
        };
    }

    private static JsonNode newShard(JsonNode question) {
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        Map<String, Object> config = new HashMap<>();
        config.put(ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, question.get("updates").asInt());
        shard = new ShareCoordinatorShard.Builder(new ShareCoordinatorConfig(new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, config)))
            .withLogContext(new LogContext())
            .withSnapshotRegistry(registry)
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .withTime(CLOCK)
            .build();
        shard.onLoaded(new Topics(question.get("topics")));
        offset = 0;
        return JSON.nullNode();
    }

    private static JsonNode initialize(JsonNode question) {
        var partition = new InitializeShareGroupStateRequestData.PartitionData()
            .setPartition(question.get("partition").asInt())
            .setStateEpoch(question.get("state_epoch").asInt())
            .setStartOffset(question.get("start_offset").asLong());
        var result = shard.initializeState(new InitializeShareGroupStateRequestData()
            .setGroupId(question.get("group").asText())
            .setTopics(List.of(new InitializeShareGroupStateRequestData.InitializeStateData()
                .setTopicId(uuid(question.get("topic")))
                .setPartitions(List.of(partition)))));
        return done(result, JSON.numberNode(result.response().results().get(0).partitions().get(0).errorCode()));
    }

    private static JsonNode read(JsonNode question) {
        var partition = new ReadShareGroupStateRequestData.PartitionData()
            .setPartition(question.get("partition").asInt())
            .setLeaderEpoch(question.get("leader_epoch").asInt());
        var result = shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData()
            .setGroupId(question.get("group").asText())
            .setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData()
                .setTopicId(uuid(question.get("topic")))
                .setPartitions(List.of(partition)))));
        ReadShareGroupStateResponseData.PartitionResult found = result.response().results().get(0).partitions().get(0);
        ObjectNode answer = JSON.objectNode();
        answer.put("error", found.errorCode());
        if (found.errorCode() == 0) {
            answer.put("state_epoch", found.stateEpoch()).put("start_offset", found.startOffset());
            ArrayNode batches = answer.putArray("batches");
            found.stateBatches().forEach(each -> batches.addArray()
                .add(each.firstOffset()).add(each.lastOffset()).add(each.deliveryCount()).add(each.deliveryState()));
        }
        return done(result, answer);
    }

    private static JsonNode write(JsonNode question) {
        List<WriteShareGroupStateRequestData.StateBatch> batches = new ArrayList<>();
        question.get("batches").forEach(each -> batches.add(new WriteShareGroupStateRequestData.StateBatch()
            .setFirstOffset(each.get(0).asLong())
            .setLastOffset(each.get(1).asLong())
            .setDeliveryCount((short) each.get(2).asInt())
            .setDeliveryState((byte) each.get(3).asInt())));
        var partition = new WriteShareGroupStateRequestData.PartitionData()
            .setPartition(question.get("partition").asInt())
            .setStateEpoch(question.get("state_epoch").asInt())
            .setLeaderEpoch(question.get("leader_epoch").asInt())
            .setStartOffset(question.get("start_offset").asLong())
            .setDeliveryCompleteCount(question.get("complete").asInt())
            .setStateBatches(batches);
        var result = shard.writeState(new WriteShareGroupStateRequestData()
            .setGroupId(question.get("group").asText())
            .setTopics(List.of(new WriteShareGroupStateRequestData.WriteStateData()
                .setTopicId(uuid(question.get("topic")))
                .setPartitions(List.of(partition)))));
        return done(result, JSON.numberNode(result.response().results().get(0).partitions().get(0).errorCode()));
    }

    private static JsonNode delete(JsonNode question) {
        var partition = new DeleteShareGroupStateRequestData.PartitionData().setPartition(question.get("partition").asInt());
        var result = shard.deleteState(new DeleteShareGroupStateRequestData()
            .setGroupId(question.get("group").asText())
            .setTopics(List.of(new DeleteShareGroupStateRequestData.DeleteStateData()
                .setTopicId(uuid(question.get("topic")))
                .setPartitions(List.of(partition)))));
        return done(result, JSON.numberNode(result.response().results().get(0).partitions().get(0).errorCode()));
    }

    private static JsonNode summary(JsonNode question) {
        var partition = new ReadShareGroupStateSummaryRequestData.PartitionData().setPartition(question.get("partition").asInt());
        var result = shard.readStateSummary(new ReadShareGroupStateSummaryRequestData()
            .setGroupId(question.get("group").asText())
            .setTopics(List.of(new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData()
                .setTopicId(uuid(question.get("topic")))
                .setPartitions(List.of(partition)))));
        var found = result.response().results().get(0).partitions().get(0);
        ArrayNode answer = JSON.arrayNode().add(found.errorCode());
        if (found.errorCode() == 0) {
            answer.add(found.stateEpoch()).add(found.leaderEpoch()).add(found.startOffset()).add(found.deliveryCompleteCount());
        }
        return done(result, answer);
    }

    /** What was decided, once the shard has taken it in; and up to where its log is not needed, -1 for nowhere. */
    private static JsonNode done(CoordinatorResult<?, CoordinatorRecord> result, JsonNode answer) {
        ObjectNode made = JSON.objectNode();
        ArrayNode records = made.putArray("records");
        HexFormat hex = HexFormat.of();
        for (CoordinatorRecord record : result.records()) {
            byte[] value = SERDE.serializeValue(record);
            records.addArray().add(hex.formatHex(SERDE.serializeKey(record))).add(value == null ? null : hex.formatHex(value));
            shard.replay(offset++, -1L, (short) -1, record);
        }
        made.set("answer", answer);
        made.put("redundant", shard.lastRedundantOffset().response().orElse(-1L));
        return made;
    }

    private static JsonNode assign(JsonNode question) {
        Map<String, Set<Uuid>> topics = new TreeMap<>();
        Map<String, Map<Uuid, Set<Integer>>> had = new HashMap<>();
        question.get("members").properties().forEach(member -> {
            Set<Uuid> read = new HashSet<>();
            member.getValue().get("topics").forEach(each -> read.add(uuid(each)));
            topics.put(member.getKey(), read);
            had.put(member.getKey(), partitions(member.getValue().get("had")));
        });
        Map<Uuid, Set<Integer>> assignable = partitions(question.get("topics"));
        GroupAssignment made = new SimpleAssignor().assign(new Group(topics, had, assignable), new Counts(assignable));
        ObjectNode answer = JSON.objectNode();
        topics.keySet().forEach(member -> {
            ObjectNode given = answer.putObject(member);
            MemberAssignment assignment = made.members().get(member);
            if (assignment != null) {
                assignment.partitions().forEach((topic, each) -> {
                    ArrayNode list = given.putArray(topic.toString());
                    new TreeSet<>(each).forEach(list::add);
                });
            }
        });
        return answer;
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode node) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        node.properties().forEach(topic -> {
            Set<Integer> each = new HashSet<>();
            topic.getValue().forEach(partition -> each.add(partition.asInt()));
            found.put(Uuid.fromString(topic.getKey()), each);
        });
        return found;
    }

    private static Uuid uuid(JsonNode node) {
        return Uuid.fromString(node.asText());
    }

    private record Group(Map<String, Set<Uuid>> topics, Map<String, Map<Uuid, Set<Integer>>> had, Map<Uuid, Set<Integer>> assignable)
        implements GroupSpec {
        @Override
        public Collection<String> memberIds() {
            return topics.keySet();
        }

        @Override
        public SubscriptionType subscriptionType() {
            return new HashSet<>(topics.values()).size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        }

        @Override
        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return had.values().stream().anyMatch(each -> each.getOrDefault(topic, Set.of()).contains(partition));
        }

        @Override
        public boolean isPartitionAssignable(Uuid topic, int partition) {
            return assignable.getOrDefault(topic, Set.of()).contains(partition);
        }

        @Override
        public MemberSubscription memberSubscription(String member) {
            return new MemberSubscription() {
                @Override
                public Optional<String> rackId() {
                    return Optional.empty();
                }

                @Override
                public Optional<String> instanceId() {
                    return Optional.empty();
                }

                @Override
                public Set<Uuid> subscribedTopicIds() {
                    return topics.get(member);
                }
            };
        }

        @Override
        public MemberAssignment memberAssignment(String member) {
            return () -> had.get(member);
        }
    }

    private record Counts(Map<Uuid, Set<Integer>> assignable) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return assignable.containsKey(topic) ? assignable.get(topic).size() : -1;
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    private record Topics(JsonNode counts) implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            Set<Uuid> ids = new HashSet<>();
            counts.fieldNames().forEachRemaining(each -> ids.add(Uuid.fromString(each)));
            return ids;
        }

        @Override
        public Set<String> topicNames() {
            return Set.of();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.empty();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid topic) {
            return counts.has(topic.toString()) ? Optional.of(new Topic(topic, counts.get(topic.toString()).asInt())) : Optional.empty();
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

    private record Topic(Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public String name() {
            return id.toString();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
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
