import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of share groups, Apache Kafka's own, driven line by line: one JSON command on standard input, one JSON answer on standard
 * output, {"ok": value} or {"error": "Class: message"}. The end of the input ends the process at once: its members are gone without a
 * word.
 *
 * <p>{"do": "open", "member", "topics", "config"} · {"do": "poll", "member", "wait_ms"} gives [partition, offset, deliveries] of what came ·
 * {"do": "acknowledge", "member", "partition", "offset", "type"} of what the last poll gave · {"do": "commit", "member"} gives an error or
 * null for each partition · {"do": "close", "member"}
 */
public class ShareDriver {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private final Map<String, KafkaShareConsumer<byte[], byte[]>> members = new HashMap<>();
    private final Map<String, Map<String, ConsumerRecord<byte[], byte[]>>> polled = new HashMap<>();
    private final String bootstrap;

    ShareDriver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        ShareDriver driver = new ShareDriver(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", driver.handle(mapper.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
            answers.println(answer);
        }
        // Not exit: what would be said at the end is not to be said.
        Runtime.getRuntime().halt(0);
    }

    private JsonNode handle(JsonNode command) {
        String name = command.get("member").asText();
        switch (command.get("do").asText()) {
            case "open":
                open(name, command);
                return JSON.nullNode();
            case "poll":
                return poll(name, command.get("wait_ms").asLong());
            case "acknowledge":
                return acknowledge(name, command);
            case "commit":
                return commit(members.get(name).commitSync(Duration.ofSeconds(30)));
            case "close":
                members.remove(name).close();
                return JSON.nullNode();
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    private void open(String name, JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        command.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        KafkaShareConsumer<byte[], byte[]> member =
            new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        member.subscribe(topics);
        members.put(name, member);
    }

    private JsonNode poll(String name, long waitMs) {
        Map<String, ConsumerRecord<byte[], byte[]>> records = new HashMap<>();
        ArrayNode rows = JSON.arrayNode();
        for (ConsumerRecord<byte[], byte[]> record : members.get(name).poll(Duration.ofMillis(waitMs))) {
            records.put(record.partition() + "-" + record.offset(), record);
            rows.add(JSON.arrayNode().add(record.partition()).add(record.offset()).add(record.deliveryCount().orElse((short) 0)));
        }
        polled.put(name, records);
        return rows;
    }

    private JsonNode acknowledge(String name, JsonNode command) {
        String key = command.get("partition").asInt() + "-" + command.get("offset").asLong();
        members.get(name).acknowledge(polled.get(name).get(key), AcknowledgeType.valueOf(command.get("type").asText()));
        return JSON.nullNode();
    }

    private static JsonNode commit(Map<TopicIdPartition, Optional<KafkaException>> outcomes) {
        ObjectNode told = JSON.objectNode();
        outcomes.forEach((partition, error) ->
            told.put(partition.topicPartition().toString(), error.map(each -> each.getClass().getSimpleName()).orElse(null)));
        return told;
    }
}
