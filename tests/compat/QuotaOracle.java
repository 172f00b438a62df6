import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Kafka's own quota managers as an oracle, on a clock that stands still but for what a trace says.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}.
 * A question is {"kind": "rate" | "bucket", "windows", "window_seconds", "steps"}; a step is one of {"at", "limits"}, which sets or (null)
 * removes limits of [user, client id] ("<default>" and null as names), {"at", "user", "client_id", "value"}, which records, {"...", "unrecord"},
 * {"...", "most"}, and for buckets {"...", "strict"}. The answer has one number for each step: the throttle time, -1 where there is none.
 */
public class QuotaOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private static final class SteppedTime implements Time {
        long nowMs = 0;

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
        public Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", run(mapper.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
        System.exit(0);
    }

    private static ArrayNode run(JsonNode question) throws Exception {
        SteppedTime time = new SteppedTime();
        ClientQuotaManagerConfig config =
            new ClientQuotaManagerConfig(question.get("windows").asInt(), question.get("window_seconds").asInt());
        boolean isBucket = question.get("kind").asText().equals("bucket");
        ArrayNode answers = JSON.arrayNode();
        try (Metrics metrics = new Metrics(time)) {
            ClientQuotaManager manager = isBucket
                ? new ControllerMutationQuotaManager(config, metrics, time, "", Optional.empty())
                : new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, time, "");
            try {
                for (JsonNode step : question.get("steps")) {
                    // A wall clock: it has run for long when the first token is taken.
                    time.nowMs = 1_700_000_000_000L + step.get("at").asLong();
                    answers.add(step.has("limits") ? limits(manager, step) : record(manager, step, time.nowMs));
                }
            } finally {
                manager.shutdown();
            }
        }
        return answers;
    }

    private static double limits(ClientQuotaManager manager, JsonNode step) {
        for (JsonNode limit : step.get("limits")) {
            JsonNode user = limit.get(0);
            JsonNode clientId = limit.get(1);
            Optional<ConfigEntity> userEntity = user.isNull() ? Optional.empty()
                : Optional.of(user.asText().equals("<default>") ? ClientQuotaManager.DEFAULT_USER_ENTITY
                    : new ClientQuotaManager.UserEntity(Sanitizer.sanitize(user.asText())));
            Optional<ConfigEntity> clientEntity = clientId.isNull() ? Optional.empty()
                : Optional.of(clientId.asText().equals("<default>") ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID
                    : new ClientQuotaManager.ClientIdEntity(clientId.asText()));
            Optional<Quota> quota = limit.get(2).isNull() ? Optional.empty() : Optional.of(new Quota(limit.get(2).asDouble(), true));
            manager.updateQuota(userEntity, clientEntity, quota);
        }
        return -1;
    }

    private static double record(ClientQuotaManager manager, JsonNode step, long nowMs) throws Exception {
        Session session = new Session(new KafkaPrincipal("User", step.get("user").asText()), InetAddress.getLoopbackAddress());
        String clientId = step.get("client_id").asText();
        double value = step.get("value").asDouble();
        if (step.has("most")) {
            return manager.maxValueInQuotaWindow(session, clientId);
        }
        if (step.has("unrecord")) {
            manager.unrecordQuotaSensor(session, clientId, value, nowMs);
            return -1;
        }
        if (step.has("strict")) {
            ControllerMutationQuotaManager mutations = (ControllerMutationQuotaManager) manager;
            ControllerMutationQuota quota = step.get("strict").asBoolean()
                ? mutations.newStrictQuotaFor(session, clientId)
                : mutations.newPermissiveQuotaFor(session, clientId);
            try {
                quota.record(value);
            } catch (org.apache.kafka.common.errors.ThrottlingQuotaExceededException error) {
                return quota.throttleTime();
            }
            return step.get("strict").asBoolean() ? -1 : quota.throttleTime();
        }
        return manager.maybeRecordAndGetThrottleTimeMs(session, clientId, value, nowMs);
    }
}
